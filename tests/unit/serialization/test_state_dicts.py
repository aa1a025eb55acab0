from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import struct
from kiln.linen import FrozenDict
from kiln.serialization import (
    current_path,
    from_state_dict,
    is_serializable,
    register_serialization_state,
    to_state_dict,
)

Moments = collections.namedtuple("Moments", ["mean", "count"])


class State(struct.PyTreeNode):
    params: Any
    name: str = struct.field(pytree_node=False, default="")


def test_every_container_becomes_a_dict() -> None:
    tree = {"s": State([1, (2,)], "n"), "m": Moments(3, FrozenDict({"a": 4})), "n": None}
    assert to_state_dict(tree) == {
        "s": {"params": {"0": 1, "1": {"0": 2}}},
        "m": {"mean": 3, "count": {"a": 4}},
        "n": None,
    }


def test_what_is_metadata_comes_from_the_target() -> None:
    assert from_state_dict(State(1, "kept"), {"params": 5}) == State(5, "kept")


def test_arrays_must_fit() -> None:
    target = {"layer": [{"kernel": jnp.ones((2, 3))}]}
    with pytest.raises(ValueError, match=r"at path \./layer/0/kernel at .*\n.*\(2, 3\).*\(3, 2\)"):
        from_state_dict(target, {"layer": {"0": {"kernel": np.ones((3, 2), np.float32)}}})
    with pytest.raises(ValueError, match=r"at path \./layer/0/kernel at .*\n.*float32.*float64"):
        from_state_dict(target, {"layer": {"0": {"kernel": np.ones((2, 3))}}})
    with pytest.raises(ValueError, match=r"at path \./layer/0/kernel at .*\n.*\(2, 3\).*\(\)"):
        from_state_dict(target, {"layer": {"0": {"kernel": 3}}})


def test_numbers_and_none_take_anything() -> None:
    state = {"a": np.ones(3), "b": np.ones(2), "c": 4}
    found = from_state_dict({"a": 0, "b": None, "c": jnp.zeros((), jnp.int32)}, state)
    assert found["a"].shape == (3,)
    assert found["c"] == 4


def test_the_types_of_arrays_are_target_enough() -> None:
    target = kiln.eval_shape(lambda: {"w": jnp.ones((2, 3))})
    found = from_state_dict(target, {"w": np.ones((2, 3), np.float32)})
    assert found["w"].shape == (2, 3)
    with pytest.raises(ValueError, match=r"\./w"):
        from_state_dict(target, {"w": np.ones(2, np.float32)})


@pytest.mark.parametrize(
    ("target", "state", "message"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, r"at path \./a at .*\n.*\{'c'\}"),
        ({"a": [1, 2]}, {"a": {"0": 1}}, r"at path \./a at .*\n.*size of the list"),
        ({"a": [1, 2]}, {"a": {"0": 1, "2": 1}}, r"at path \./a at .*\n.*\['1'\]"),
        ({"a": Moments(1, 2)}, {"a": {"mean": 1}}, r"at path \./a at .*\n.*do not match"),
        ({"a": State(1)}, {"a": {}}, r"at path \./a at .*\nMissing field params"),
        (
            {"a": State(1)},
            {"a": {"params": 1, "q": 2}},
            r"at path \./a at .*\nUnknown field.*\"q\"",
        ),
        ({"a": {"b": 1}}, {"a": 3}, r"at path \./a at .*\n.*is a dict, the state a int"),
    ],
)
def test_a_mismatch_names_the_path(target, state, message) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        from_state_dict(target, state)
    assert len(str(caught.value).splitlines()) == 3
    assert current_path() == ""


def test_keys_with_the_same_text() -> None:
    with pytest.raises(ValueError, match="unique string representation"):
        to_state_dict({1: 2, "1": 3})


def test_classes_of_users() -> None:
    class Box:
        def __init__(self, value):
            self.value = value

    def restore(target, state):
        assert current_path() == "./b"
        return Box(from_state_dict(target.value, state["value"], "value"))

    assert not is_serializable(Box(1))
    register_serialization_state(Box, lambda box: {"value": to_state_dict(box.value)}, restore)
    assert is_serializable(Box(1))
    assert to_state_dict({"b": Box([1])}) == {"b": {"value": {"0": 1}}}
    assert from_state_dict({"b": Box([1])}, {"b": {"value": {"0": 7}}})["b"].value == [7]
    with pytest.raises(ValueError, match="already registered"):
        register_serialization_state(Box, to_state_dict, restore)
    register_serialization_state(Box, lambda box: {3: 4}, restore, override=True)
    with pytest.raises(ValueError, match="string keys"):
        to_state_dict(Box(1))
