"""A jitted function never returns what belongs to other static values, types or closures."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import kiln
import kiln.numpy as jnp
from tests.properties.agreement import by_meaning
from tests.properties.exploring import explored


@pytest.fixture(autouse=True)
def _on_the_reference_engine() -> Iterator[None]:
    with by_meaning():
        yield


class Mode(enum.Enum):
    """Static values of an enumeration."""

    FAST = 1
    EXACT = 2


@dataclasses.dataclass(frozen=True)
class Settings:
    """A static value with parts."""

    rate: Any
    mode: Mode = Mode.FAST


class Coarse:
    """A static value whose hash says nothing."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coarse) and self.value == other.value

    def __repr__(self) -> str:
        return f"Coarse({self.value})"


Corner = collections.namedtuple("Corner", ["a", "b"])

# Values that are equal, or hash alike, and yet are different programs.
ATOMS = st.sampled_from(
    [
        *(0, 1, 2, -1, -2, True, False, 0.0, -0.0, 1.0, 2.0, math.nan, math.inf, 1j, 1 + 0j),
        *("", "1", "a", b"a", None, Mode.FAST, Mode.EXACT, int, float, jnp.sin, jnp.cos),
        *(np.int32(1), np.float32(1), np.float64(1), np.bool_(True), np.dtype("float32")),
    ]
)
STATICS = st.recursive(
    ATOMS,
    lambda children: st.one_of(
        st.tuples(children),
        st.tuples(children, children),
        st.builds(Corner, children, children),
        st.frozensets(st.sampled_from([0, 1, 1.0, True, "a"]), max_size=2),
        st.builds(Settings, children, st.sampled_from(Mode)),
        st.builds(Coarse, st.integers(0, 3)),
        st.builds(functools.partial, st.just(jnp.add), children),
    ),
    max_leaves=4,
)


def _described(value: Any) -> str:
    """Return a text that differs for values that are different programs."""
    if isinstance(value, functools.partial):
        return f"partial({_described(value.func)}, {_described(value.args)})"
    if isinstance(value, (tuple, frozenset)):
        return f"{type(value).__name__}({sorted(map(_described, value)) if isinstance(value, frozenset) else list(map(_described, value))})"
    if isinstance(value, Settings):
        return f"Settings({_described(value.rate)}, {value.mode})"
    return f"{type(value).__name__}:{value!r}"


@explored(st.lists(STATICS, min_size=2, max_size=12), few=60, many=3000)
def test_static_values(values: list[Any]) -> None:
    seen: list[str] = []

    def f(x: Any, static: Any) -> Any:
        # The number stands for the program that this value asks for.
        text = _described(static)
        if text not in seen:
            seen.append(text)
        return x + seen.index(text)

    by_name = kiln.jit(f, static_argnames="static")
    by_number = kiln.jit(f, static_argnums=1)
    for value in values * 2:
        expected = f(0, value)
        assert int(by_number(0, value)) == expected, (value, values)
        assert int(by_name(0, static=value)) == expected, (value, values)
        assert int(by_name(0, value)) == expected, (value, values)


ARGUMENTS = st.sampled_from(
    [
        *(1, 1.0, True, 1j, 2, 0.0, -0.0),
        *(np.int8(1), np.uint8(1), np.int32(1), np.float16(1), np.float32(1), np.bool_(True)),
        *(np.ones(1, "f4"), np.ones(2, "f4"), np.ones((1, 1), "f4"), np.ones(0, "i4")),
        *((1,), [1], (1, 2.0), {"a": 1}, {"b": 1}, {"a": 1, "b": 2}, None, (), [None, 1]),
    ]
)


@explored(st.lists(ARGUMENTS, min_size=2, max_size=10), few=60, many=3000)
def test_types_and_structures_of_arguments(values: list[Any]) -> None:
    def f(x: Any) -> Any:
        leaves = kiln.tree.leaves(x)
        return {"doubled": kiln.tree.map(lambda a: a + a, x), "count": len(leaves)}

    jitted = kiln.jit(f)
    for value in values * 2:
        expected = f(kiln.tree.map(jnp.asarray, value))
        found = jitted(value)
        assert kiln.tree.structure(found) == kiln.tree.structure(expected)
        for a, b in zip(
            kiln.tree.leaves(found["doubled"]), kiln.tree.leaves(expected["doubled"]), strict=True
        ):
            assert (a.dtype, a.shape, a.weak_type) == (b.dtype, b.shape, b.weak_type)
            np.testing.assert_array_equal(a, b)


@explored(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([0, 0.0, -0.0, 1, 1.0, True])), max_size=8
    ),
    few=24,
    many=1000,
)
def test_fresh_functions(calls: list[tuple[int, Any]]) -> None:
    """Functions made in a loop, with equal code and other closures, defaults and globals."""
    for kind, value in calls:
        if kind == 0:
            f = lambda x: (x + value, jnp.asarray(value), x)  # noqa: B023
        elif kind == 1:

            def f(x: Any, v: Any = value) -> Any:
                return x + v, jnp.asarray(v), x

        else:
            f = functools.partial(lambda v, x: (x + v, jnp.asarray(v), x), value)
        for found, expected in zip(kiln.jit(f)(jnp.float32(2)), f(jnp.float32(2)), strict=True):
            assert (found.dtype, found.weak_type) == (expected.dtype, expected.weak_type)
            assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


SCALE: Any = 1
HELD: Any = 1.0


def _scaled(x: Any) -> Any:
    return x * SCALE + len(HELD if isinstance(HELD, (tuple, list)) else (HELD,))


@dataclasses.dataclass(frozen=True)
class Step:
    """An immutable callable."""

    rate: Any

    def __call__(self, x: Any) -> Any:
        return _scaled(x) * self.rate


def _fresh(kind: str, value: Any, array: Any) -> Any:
    """Return a new function that depends on a value, an array, globals and other functions."""
    if kind == "closure":
        return lambda x: _scaled(x) * value + array
    if kind == "default":
        return lambda x, v=value, *, w=array: x * v + w * SCALE
    if kind == "partial":
        return functools.partial(lambda v, x, w: _scaled(x) + v * w, value, w=array)
    if kind == "method":
        return Step(value).__call__
    if kind == "levels":
        inner = _fresh("closure", value, array)
        return lambda x: inner(x) - _fresh("method", value, array)(x)
    if kind == "list":
        items = [value, array]
        return lambda x: x * items[0] + items[1]
    if kind == "value of an array":
        return lambda x: x * float(array) + value
    if kind == "jitted":
        inner = kiln.jit(_fresh("default", value, array))
        return lambda x: inner(x) * 2
    if kind == "loop":
        return lambda x: kiln.lax.fori_loop(0, 2, lambda i, c: c * value + array + SCALE, x)
    return lambda x: kiln.lax.cond(array > 1, lambda c: c * value, lambda c: c - SCALE, x)


KINDS = (
    *("closure", "default", "partial", "method", "levels", "list", "value of an array", "jitted"),
    *("loop", "branch"),
)
PLAIN = st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, 2, 2.5, np.float32(2), np.int32(2), math.nan])


@explored(
    st.lists(
        st.one_of(
            st.tuples(
                st.just("call"), st.sampled_from(KINDS), PLAIN, st.sampled_from([0, 1, 2, 3])
            ),
            st.tuples(st.just("scale"), PLAIN, st.none(), st.none()),
            st.tuples(
                st.just("held"),
                st.sampled_from([1.0, (1,), (1, 2), [1], [1, 2]]),
                st.none(),
                st.none(),
            ),
            st.tuples(st.just("append"), st.none(), st.none(), st.none()),
        ),
        max_size=14,
    ),
    few=60,
    many=5000,
)
def test_fresh_functions_among_changes(steps: list[tuple[Any, ...]]) -> None:
    """Whatever changes between calls, a fresh function gives what plain Python gives."""
    space = globals()
    before = space["SCALE"], space["HELD"]
    arrays = [jnp.float32(n) for n in range(4)]
    try:
        for what, first, value, number in steps:
            if what == "scale":
                space["SCALE"] = first
            elif what == "held":
                space["HELD"] = first
            elif what == "append":
                if isinstance(HELD, list):
                    HELD.append(1)
            else:
                f = _fresh(first, value, arrays[number] + 0)
                x = jnp.float32(3)
                with kiln.disable_jit():
                    expected = jnp.asarray(f(x))
                found = kiln.jit(f)(x)
                assert (found.dtype, found.shape) == (expected.dtype, expected.shape), first
                np.testing.assert_array_equal(found, expected, err_msg=f"{first} {value} {SCALE}")
    finally:
        space["SCALE"], space["HELD"] = before


@explored(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=6), few=16, many=500
)
def test_options_in_force(calls: list[tuple[bool, bool]]) -> None:
    f = kiln.jit(lambda x: jnp.sum(x) + jnp.zeros(()))
    x = np.arange(3.0)
    for wide, _ in calls:
        with kiln.enable_x64(wide):
            assert f(x).dtype == (np.float64 if wide else np.float32)


@explored(
    st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), st.integers(0, 5)), max_size=8),
    few=24,
    many=1000,
)
def test_positions_and_keywords(calls: list[tuple[str, int]]) -> None:
    @kiln.jit
    def f(x: Any = 1, y: Any = 20, z: Any = 300) -> Any:
        return x + 1000 * y + 1000000 * z

    for name, value in calls:
        expected = {"x": 1, "y": 20, "z": 300} | {name: value}
        number = expected["x"] + 1000 * expected["y"] + 1000000 * expected["z"]
        assert int(f(**{name: value})) == number
        assert int(f(*expected.values())) == number
        assert int(f(**dict(reversed(expected.items())))) == number
