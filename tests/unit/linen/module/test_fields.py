"""Modules inside values, and values that a module may hold as they are."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

import kiln
from kiln import linen as nn
from kiln import struct
from kiln.linen.module.fields import frozen, map_modules

X = np.ones((2, 3), np.float32)
KEY = kiln.random.key(0)
Pair = collections.namedtuple("Pair", ["left", "right"])


@struct.dataclass
class Held:
    layer: Any
    rest: Any


def names_in(value):
    found = []
    map_modules(lambda suffix, module: (found.append(suffix), module)[1], value)
    return found


def test_names_are_positions_keys_and_fields():
    d = nn.Dense(3)
    assert names_in(d) == [""]
    assert names_in([d, (d, {"k": d})]) == ["_0", "_1_0", "_1_1_k"]
    assert names_in(Pair(d, [d])) == ["_left", "_right_0"]
    assert names_in(Held(d, {"a": d})) == ["_layer", "_rest_a"]
    assert names_in({"f": nn.Dense, "g": nn.relu, "h": "text", "i": np.ones(3)}) == []


def test_what_holds_no_module_is_the_same_object():
    for value in ([1, {"a": (2,)}], Pair(1, 2), {"a": 1}, Held(1, [2]), np.ones(3)):
        assert map_modules(lambda suffix, module: module, value) is value


def test_replaced_modules_lie_in_containers_of_the_same_kind():
    d, e = nn.Dense(3), nn.Dense(4)
    value = [Pair(d, {"a": Held(d, [1])}), (d,)]
    found = map_modules(lambda suffix, module: e, value)
    assert found == [Pair(e, {"a": Held(e, [1])}), (e,)]


def test_frozen_values_have_a_hash():
    assert frozen([1, [2], {"a": [3]}]) == (1, (2,), nn.FrozenDict({"a": (3,)}))
    hash(frozen([1, [2], {"a": [3]}]))


def test_submodules_in_any_pytree_field():
    class Net(nn.Module):
        held: Any

        def __call__(self, x):
            return self.held.rest["a"](self.held.layer(x))

    params = Net(Held(nn.Dense(3), {"a": nn.Dense(2)})).init(KEY, X)["params"]
    assert set(params) == {"held_layer", "held_rest_a"}


def test_functions_as_defaults_are_fields():
    class Net(nn.Module):
        act: Callable[..., Any] = nn.relu
        layer: Callable[..., Any] = functools.partial(nn.Dense, use_bias=False)
        other = functools.partial(nn.Dense, 2)

        @nn.compact
        def __call__(self, x):
            return self.act(self.layer(3)(self.other()(x)))

    assert Net().act is nn.relu
    assert Net() == Net()
    assert hash(Net()) == hash(Net(act=nn.relu))
    assert set(Net().init(KEY, X)["params"]["Dense_0"]) == {"kernel"}


def test_generic_and_mixed_classes():
    T = TypeVar("T")

    @dataclasses.dataclass
    class Sized:
        size: int = 3

    class Net(nn.Module, Generic[T]):
        width: int

        @nn.compact
        def __call__(self, x):
            return nn.Dense(self.width)(x)

    class Both(Sized, nn.Module):
        depth: int = 2

        def __call__(self, x):
            return x * self.size * self.depth

    assert Net[int](4).init_with_output(KEY, X)[0].shape == (2, 4)
    assert Both(5).apply({}, 1.0) == 10
