"""The names of dtypes that also make arrays."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from kiln.base import dtypes
from kiln.base.dtypes.scalar_types import SCALAR_TYPES, ScalarType, set_scalar_constructor

float32: Any = SCALAR_TYPES["float32"]


def test_equal_to_the_dtype_they_denote() -> None:
    assert float32 == np.dtype("float32") == float32
    assert float32 == np.float32
    assert np.float32 == float32
    assert float32 != np.float64
    assert float32 != SCALAR_TYPES["float64"]
    assert hash(float32) == hash(np.float32)
    assert {np.float32: 1}[float32] == {float32: 1}[np.float32] == 1


def test_accepted_as_dtype() -> None:
    assert np.dtype(float32) == np.dtype("float32")
    assert np.zeros(2, SCALAR_TYPES["bfloat16"]).dtype == dtypes.bfloat16
    assert dtypes.issubdtype(float32, np.floating)
    assert dtypes.canonicalize_dtype(SCALAR_TYPES["float64"]) == np.dtype("float32")
    assert dtypes.promote_types(float32, SCALAR_TYPES["int8"]) == np.dtype("float32")


def test_look_and_kind() -> None:
    assert repr(float32) == "<class 'kiln.numpy.float32'>"
    assert float32.__name__ == "float32"
    assert isinstance(float32, type)
    assert isinstance(np.float32(1), float32)
    assert not isinstance(1.0, float32)
    assert SCALAR_TYPES["int_"] is SCALAR_TYPES["int64"]
    assert pickle.loads(pickle.dumps(float32)) is float32
    assert copy.deepcopy(float32) is float32


def test_call_uses_the_installed_constructor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScalarType, "make", ScalarType.__dict__["make"])
    set_scalar_constructor(lambda value, dtype: (value, dtype))
    assert float32(3) == (3, np.dtype("float32"))
    with pytest.raises(TypeError):
        float32()
