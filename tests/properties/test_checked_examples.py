"""Checks under vmap: what an example does not compute alone is not reported of a stack of them.

A loop runs on until the last example has ended, and every branch runs that some example takes. Each
place of such control flow is tried with each kind of check, on each engine: with examples that do
nothing wrong alone, and with one that does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.experimental import checkify

Step = Callable[[Any], Any]
"""Of a number: right from 0 to 2, wrong from 3."""
Place = Callable[[Step, Any, Any], Any]
"""Applies a step to the numbers from the first on that are less than the second."""

TABLE = np.array([1.0, 2.0, 3.0], np.float32)


def _user_checked(i: Any) -> Any:
    kiln.check(i < 3, "{} is not less than 3", i)
    return i.astype(jnp.float32)


KINDS: dict[str, tuple[Step, Any]] = {
    "nan": (lambda i: jnp.sqrt(2.5 - i), checkify.nan_checks),
    "index": (lambda i: jnp.asarray(TABLE)[i], checkify.index_checks),
    "division": (lambda i: 1 / (3.0 - i), checkify.div_checks),
    "user": (_user_checked, checkify.user_checks),
}


def _while(step: Step, first: Any, end: Any) -> Any:
    return lax.while_loop(
        lambda c: c[0] < end, lambda c: (c[0] + 1, c[1] + step(c[0])), (first, jnp.float32(0))
    )[1]


def _fori(step: Step, first: Any, end: Any) -> Any:
    return lax.fori_loop(first, end, lambda i, total: total + step(i), jnp.float32(0))


def _windows(step: Step, first: Any, end: Any) -> Any:
    def body(c: Any) -> Any:
        i, rows = c
        return i + 1, rows.at[jnp.minimum(i, 3)].set(step(i))

    return lax.while_loop(lambda c: c[0] < end, body, (first, jnp.zeros(4, jnp.float32)))[1]


def _read_from_carry(step: Step, first: Any, end: Any) -> Any:
    def body(c: Any) -> Any:
        i, values, total = c
        return i + 1, values.at[0].set(i + 1), total + step(values[0])

    start = first, jnp.stack([first, first]), jnp.float32(0)
    return lax.while_loop(lambda c: c[0] < end, body, start)[2]


def _keys(step: Step, first: Any, end: Any) -> Any:
    def body(c: Any) -> Any:
        i, key, total = c
        key, used = kiln.random.split(key)
        return i + 1, key, total + step(i) + 0 * kiln.random.uniform(used)

    start = first, kiln.random.key(0), jnp.float32(0)
    return lax.while_loop(lambda c: c[0] < end, body, start)[2]


def _referenced(step: Step, first: Any, end: Any) -> Any:
    total = kiln.new_ref(jnp.float32(0))

    def body(i: Any) -> Any:
        total[...] += step(i)
        return i + 1

    lax.while_loop(lambda i: i < end, body, first)
    return total[...]


def _slope(step: Step, first: Any, end: Any) -> Any:
    def f(x: Any) -> Any:
        return lax.cond(first < end, lambda y: y * step(first), lambda y: y, x)

    return kiln.grad(f)(jnp.float32(2))


def _tangent(step: Step, first: Any, end: Any) -> Any:
    def f(x: Any) -> Any:
        return _while(lambda i: step(i) * x, first, end)

    return kiln.jvp(f, (jnp.float32(2),), (jnp.float32(1),))[1]


PLACES: dict[str, Place] = {
    "while": _while,
    "fori": _fori,
    "while of windows": _windows,
    "while that reads its carry": _read_from_carry,
    "while of keys": _keys,
    "while of a reference": _referenced,
    "while in while": lambda step, first, end: _while(lambda i: _fori(step, i, end), first, end),
    "scan in while": lambda step, first, end: _while(
        lambda i: lax.scan(lambda t, _: (t + step(i), None), jnp.float32(0), None, 2)[0], first, end
    ),
    "cond in while": lambda step, first, end: _while(
        lambda i: lax.cond(i % 2 == 0, step, lambda i: step(i) * 2, i), first, end
    ),
    "jit in while": lambda step, first, end: _while(kiln.jit(step), first, end),
    "checkpoint in while": lambda step, first, end: _while(kiln.checkpoint(step), first, end),
    "while in scan": lambda step, first, end: lax.scan(
        lambda t, _: (t + _while(step, first, end), None), jnp.float32(0), None, length=2
    )[0],
    "while in cond": lambda step, first, end: lax.cond(
        first < 2, lambda: _while(step, first, end), lambda: _fori(step, first, end)
    ),
    "while in jit": lambda step, first, end: kiln.jit(lambda i, j: _while(step, i, j))(first, end),
    "vmap of while": lambda step, first, end: kiln.vmap(lambda i: _while(step, i, end))(
        jnp.stack([first, first + 1])
    ),
    "cond": lambda step, first, end: lax.cond(
        first < end, lambda: step(end - 1), lambda: jnp.float32(0)
    ),
    "cond of an operand": lambda step, first, end: lax.cond(
        first < end, step, lambda i: jnp.float32(0), jnp.where(first < end, end - 1, 7)
    ),
    "switch": lambda step, first, end: lax.switch(
        jnp.where(first < end, 1, 2),
        [lambda i: step(i + 9), step, lambda i: jnp.float32(0)],
        jnp.where(first < end, end - 1, 7),
    ),
    "cond in cond": lambda step, first, end: lax.cond(
        first < end,
        lambda: lax.cond(end > first, lambda: step(end - 1), lambda: step(end + 9)),
        lambda: jnp.float32(0),
    ),
    "cond in scan": lambda step, first, end: lax.scan(
        lambda i, _: (
            i + 1,
            lax.cond(i < end, step, lambda i: jnp.float32(0), i),
        ),
        first,
        None,
        length=4,
    )[1],
    "grad of cond": _slope,
    "jvp of while": _tangent,
}
FIRST = np.array([0, 2, 3, 1], np.int32)
RIGHT, WRONG = np.array([3, 3, 3, 3], np.int32), np.array([3, 3, 4, 3], np.int32)
"""Ends of the examples. One goes a step too far where it says so."""


def _reports(f: Any, args: Any, kind: str, engine: str) -> dict[str, bool]:
    """Return who reports a failure."""
    _, categories = KINDS[kind]
    found: dict[str, bool] = {}
    with override(engine=None if engine == "native" else engine):
        error, outs = kiln.jit(checkify.checkify(f, errors=categories))(*args)
        found["checkify"] = error.get() is not None
        if kind != "user" and not found["checkify"]:
            np.testing.assert_array_equal(outs, kiln.jit(f)(*args))
    if engine == "native" and kind in ("nan", "index"):
        try:
            kiln.jit(f, check=kind)(*args)
            found["check"] = False
        except (FloatingPointError, IndexError):
            found["check"] = True
    return found


def _wrong(kinds: Iterable[str], places: Iterable[str], engine: str = "native") -> list[Any]:
    found = []
    for kind, place in itertools.product(kinds, places):
        step, _ = KINDS[kind]
        over = kiln.vmap(lambda i, j, step=step, place=place: PLACES[place](step, i, j))
        for ends in (RIGHT, WRONG):
            for who, reported in _reports(over, (FIRST, ends), kind, engine).items():
                if reported != (ends is WRONG):
                    found.append((kind, place, who, reported))
    return found


def test_what_another_example_computes_is_not_reported() -> None:
    assert _wrong(["nan", "index"], ["while", "cond of an operand"]) == []
    assert _wrong(["nan"], ["switch"]) == []
    assert _wrong(["division", "user"], ["while in while"]) == []


@pytest.mark.full
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("engine", ["native", "xla", "reference"])
def test_every_place(place: str, engine: str) -> None:
    assert _wrong(KINDS, [place], engine) == []
