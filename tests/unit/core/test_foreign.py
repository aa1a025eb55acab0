"""Foreign functions by name, and the attributes of their calls."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from kiln.core import foreign
from kiln.core.foreign import Registration, attributes_of, number_of, target
from kiln.ffi import pycapsule


def test_a_name_is_one_object() -> None:
    assert target("somebody") is target("somebody")
    assert target("somebody") is not target("somebody else")
    assert repr(target("somebody")) == "somebody"


def test_names_stand_for_one_function() -> None:
    one, other = ctypes.pythonapi.Py_GetVersion, ctypes.pythonapi.Py_GetPlatform
    foreign.register("test_foreign", Registration(pycapsule(one), "cpu", 1))
    foreign.register("test_foreign", Registration(pycapsule(one), "cpu", 1))
    foreign.register("test_foreign", Registration({"execute": pycapsule(other)}, "CUDA", 1))
    assert set(target("test_foreign").registered) == {"cpu", "CUDA"}
    with pytest.raises(ValueError, match="the name is taken"):
        foreign.register("test_foreign", Registration(pycapsule(other), "cpu", 1))
    with pytest.raises(ValueError, match="the name is taken"):
        foreign.register("test_foreign", Registration({"execute": pycapsule(one)}, "CUDA", 1))


def test_types_are_registered_once() -> None:
    foreign.register_type("test_type", {"type_id": 1}, "cpu")
    foreign.register_type("test_type", {"type_id": 2}, "cpu")
    found = foreign._types.pop(("test_type", "cpu"))
    assert found == {"type_id": 1}
    assert ("test_type", "cpu") not in foreign.registered_types()


def test_attributes_compare_by_type_and_value() -> None:
    values: list[Any] = [1, True, 1.0, np.int32(1), np.float32(1), "1", np.ones(1), [1], {"a": 1}]
    found = [attributes_of({"x": value}, "call") for value in values]
    assert len(set(found)) == len(values)
    assert found == [attributes_of({"x": value}, "call") for value in values]
    assert [name for name, _ in attributes_of({"b": 1, "a": 2}, "call")] == ["a", "b"]


def test_numbers_are_those_given() -> None:
    ((_, one), (_, many)) = attributes_of({"a": np.uint8(7), "b": np.arange(3)}, "call")
    assert number_of(one) == 7 and number_of(one).dtype == np.uint8
    np.testing.assert_array_equal(number_of(many), [0, 1, 2])


@pytest.mark.parametrize("value", [None, object(), np.array([None])])
def test_what_is_no_attribute(value: Any) -> None:
    with pytest.raises(TypeError, match="is not an attribute of a foreign function"):
        attributes_of({"x": value}, "call")
