"""Calls of any nested Python objects: the runtime's call agrees with its definition in Python.

The same calls, in the same order, must give the same results bit by bit, or errors of one class
with the same first line.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from tests.properties.exploring import explored


class Pair(NamedTuple):
    a: Any
    b: Any


@kiln.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: Any
    b: Any


class Tied(kiln.struct.PyTreeNode):
    w: Any
    unit: Any = kiln.struct.field(pytree_node=False, default=None)


class Rack:
    """Registered by functions, with metadata."""

    def __init__(self, parts: Any, note: Any) -> None:
        self.parts, self.note = parts, note


kiln.tree_util.register_pytree_node(
    Rack, lambda x: (x.parts, x.note), lambda note, parts: Rack(list(parts), note)
)


@dataclasses.dataclass
class Unknown:
    w: Any


class Sized(int):
    pass


class Level(enum.IntEnum):
    LOW = 1


class Listed(list):  # type: ignore[type-arg]
    pass


class Filed(dict):  # type: ignore[type-arg]
    pass


class Tupled(tuple):  # type: ignore[type-arg]
    pass


class Hostile:
    """Equal to all of its class, with one hash for all; or raises when asked."""

    def __init__(self, mood: str) -> None:
        self.mood = mood

    def __hash__(self) -> int:
        if self.mood == "no hash":
            raise RuntimeError("no hash")
        return 7

    def __eq__(self, other: object) -> Any:
        if self.mood == "no equality":
            raise RuntimeError("no equality")
        if self.mood == "no truth":
            return np.zeros(2)
        return isinstance(other, Hostile) and other.mood == self.mood

    def __lt__(self, other: object) -> bool:
        raise RuntimeError("no order")

    def __repr__(self) -> str:
        return f"Hostile({self.mood})"


ARRAYS: list[Callable[[], Any]] = [
    lambda: np.arange(6, dtype="f4")[::2],
    lambda: np.arange(6, dtype="f4")[::-1],
    lambda: np.arange(6, dtype="i4").reshape(2, 3).T,
    lambda: np.broadcast_to(np.float32(2), (2, 3)),
    lambda: np.arange(3, dtype=">f4"),
    lambda: np.arange(3, dtype=">i2"),
    lambda: np.arange(3, dtype="<f4"),
    lambda: np.frombuffer(b"\0" + np.arange(3, dtype="f4").tobytes(), "f4", 3, 1),
    lambda: np.array(1.5),
    lambda: np.array(2, "i1"),
    lambda: np.zeros((0, 3), "f4"),
    lambda: np.zeros(0, "i8"),
    lambda: np.array([2**31, -(2**63)]),
    lambda: np.array([2**64 - 1], "u8"),
    lambda: np.ones(2, "c16"),
    lambda: np.ones(2, "f2"),
    lambda: np.ones(2, bool),
    lambda: np.array([1, None]),
    lambda: np.array(["a"]),
    lambda: np.zeros(2, [("x", "f4")]),
    lambda: np.zeros(2, "M8[s]"),
    lambda: np.asmatrix(np.ones((2, 2), "f4")),
    lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    lambda: memoryview(b"ab"),
    lambda: jnp.ones(2),
    lambda: jnp.ones(2, jnp.int8),
    lambda: jnp.asarray(2),
    lambda: jnp.zeros((0, 2)),
]
EDGES = [x + d for x in (0, 2**31, -(2**31), 2**32, 2**63, -(2**63), 2**64) for d in (-1, 0, 1)]
SCALARS: list[Any] = [
    *(*EDGES, 10**30, True, False, Sized(3), Level.LOW),
    *(0.0, -0.0, 1.5, math.nan, math.inf, 1e39, 1e308, 5e-324, 1j, complex(math.nan, -0.0)),
    *(np.int8(-1), np.uint8(255), np.int64(2**31), np.uint64(2**64 - 1), np.float16(1)),
    *(np.float32(1), np.float64(1e39), np.complex128(1), np.bool_(True), np.longdouble(1)),
]
STRANGE: list[Any] = [
    *(np.str_("a"), np.datetime64("2020"), np.timedelta64(1, "s"), np.void(b"ab")),
    *("a", b"a", int, len, Ellipsis, NotImplemented, Unknown(1.0), Listed([1]), Tupled((1, 2))),
    *(Filed(a=1), Hostile("kind"), Hostile("no equality"), {1}, iter([])),
]
_USUAL = st.sampled_from([0, 1, True, 1.5, -2.5, None, np.float32(2), np.int32(-1)])
_ARRAYS = st.sampled_from(ARRAYS).map(lambda make: make())
LEAVES = st.one_of(
    *[_USUAL] * 18, *[_ARRAYS] * 4, *[st.sampled_from(SCALARS)] * 4, st.sampled_from(STRANGE)
)
NAMES = st.sampled_from(["a", "b", "", "é"])
KEYS = st.one_of(
    st.integers(0, 2),
    st.sampled_from([0, 1, True, 1.0, -0.0, False]),
    st.sampled_from([(1, "a"), (1, "b"), (2, "a")]),
    st.sampled_from([0, None, b"a", "a", math.nan, int, Hostile("kind")]),
)
# By number: hypothesis asks values for their hash.
_METADATA: list[Any] = [
    *(1, 1.0, True, 0.0, -0.0, "m", "n", None, (1, "a"), (1.0, "a"), int, len, math.nan),
    *(np.float32(1), np.dtype("f4"), frozenset({1}), frozenset({True}), frozenset({1.0})),
    *(Pair(0, "a"), Pair(1, "a"), Pair(1.0, "a"), Pair(True, "a"), Hostile("kind")),
    *(Hostile("no hash"), Hostile("no equality"), Hostile("no truth"), [1], np.ones(2)),
]
METADATA = st.integers(0, len(_METADATA) - 1).map(_METADATA.__getitem__)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(NAMES, inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=2),
        st.dictionaries(KEYS, inner, max_size=2).map(collections.OrderedDict),
        st.dictionaries(NAMES, inner, max_size=2).map(lambda d: collections.defaultdict(list, d)),
        st.dictionaries(NAMES, inner, max_size=2).map(kiln.linen.FrozenDict),
        st.builds(Pair, inner, inner),
        st.builds(Layer, inner, inner),
        st.builds(Tied, inner, METADATA),
        st.builds(Rack, st.lists(inner, max_size=2), METADATA),
        st.builds(kiln.tree_util.Partial, st.sampled_from([max, min]), inner),
    ),
    max_leaves=5,
)


def mutate(x: Any) -> None:
    """Change the containers in a value."""
    if type(x) is list:
        for child in x:
            mutate(child)
        if len(x) > 1:
            x.reverse()
        else:
            x.append(2.5)
    elif isinstance(x, Layer):
        mutate(x.w)
        x.w = (x.w, 1)
    elif isinstance(x, Rack):
        mutate(x.parts)
    elif isinstance(x, tuple):
        for child in x:
            mutate(child)
    elif isinstance(x, dict) and type(x) is not Filed:
        for child in x.values():
            mutate(child)
        if len(x) > 1:
            # The same keys in another order.
            first = next(iter(x))
            x[first] = x.pop(first)
        else:
            x["new"] = 1


def replaced(x: Any, place: int, leaf: Any) -> Any:
    """Return a value of the same structure with another leaf at a place."""
    try:
        leaves, structure = kiln.tree.flatten(x)
        if leaves:
            leaves[place % len(leaves)] = leaf
        return structure.unflatten(leaves)
    except (TypeError, ValueError, RuntimeError):
        return x


def described(x: Any) -> Any:
    """Return what tells two results apart."""
    if isinstance(x, jnp.ndarray):
        return x.dtype, x.shape, x.weak_type, np.asarray(x).tobytes()
    return type(x), repr(x)


def outcome(function: Any, is_defined: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what tells the outcomes of two calls apart."""
    try:
        # On one line, which errors name.
        result = function._call(args, kwargs) if is_defined else function(*args, **kwargs)
        leaves, structure = kiln.tree.flatten(result)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return type(error), str(error).partition("\n")[0]
    return [described(leaf) for leaf in leaves], repr(structure)


def check_agreement(
    x: Any, place: int, near: tuple[Any, Any], data: tuple[Any, Any], spelling: int, x64: bool
) -> None:
    """Make calls by the runtime and by the definition, and again after the values changed."""

    def f(x: Any, y: Any = 2, **rest: Any) -> Any:
        # The structure is seen when it is traced, and is part of the result.
        return x, y, rest, len(repr(kiln.tree.structure((x, y, rest))))

    function, defined = kiln.jit(f), kiln.jit(f)
    values = [
        Tied(replaced(x, place, near[0]), data[0]),
        Tied(replaced(x, place, near[1]), data[0]),
        Tied(x, data[1]),
        (near[0], x),
    ]

    def check() -> None:
        for value in values:
            args, kwargs = [
                ((value, 2), {}),
                ((value,), {"y": near[1]}),
                ((), {"x": value, "z": 1.5}),
            ][spelling]
            want = outcome(defined, True, args, kwargs)
            assert outcome(function, False, args, kwargs) == want, (args, kwargs)

    with warnings.catch_warnings(), override(enable_x64=x64):
        warnings.simplefilter("ignore")
        for _ in range(3):
            check()
        mutate(x)
        for _ in range(3):
            check()


# Leaves that are almost the same.
NEAR = st.one_of(
    st.tuples(LEAVES, LEAVES),
    st.tuples(_ARRAYS, _ARRAYS),
    *[
        st.tuples(*[st.sampled_from(family).map(lambda make: make())] * 2)
        for family in (
            [*ARRAYS[:2], *ARRAYS[:2], ARRAYS[3], ARRAYS[4], *ARRAYS[6:9], ARRAYS[10]],
            [lambda edge=edge: edge for edge in (*EDGES, True, Sized(1), 1.0, np.int32(1), 1j)],
        )
    ]
    * 3,
)
CALLS = (
    *(TREES, st.integers(0, 3), NEAR, st.tuples(METADATA, METADATA)),
    *(st.integers(0, 2), st.booleans()),
)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@explored(*CALLS, few=100, many=5000)
def test_the_runtime_agrees_with_the_definition(
    x: Any, place: int, near: tuple[Any, Any], data: tuple[Any, Any], spelling: int, x64: bool
) -> None:
    """The runtime and the definition answer alike."""
    check_agreement(x, place, near, data, spelling, x64)
