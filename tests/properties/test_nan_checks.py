"""Checks for nan: what a program computes and then hides is reported, wherever it is.

Each way to make a nan is tried in each place where programs compute, on each engine, with its
finite counterpart, which never is reported. tests/rules/test_finite.py tries every primitive.
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

Function = Callable[[Any], Any]

BAD, GOOD = (-1.0, 0.5), (1.5, 0.5)
"""Operands of which a nan is made, and of which none is."""

SIGNS = np.array([1, 1, -1, -1])

MAKERS: dict[str, Function] = {
    "log": jnp.log,
    "sqrt": jnp.sqrt,
    "inf - inf": lambda x: jnp.where(x < 0, jnp.inf, x) - jnp.where(x < 0, jnp.inf, x),
    "inf * 0": lambda x: jnp.where(x < 0, jnp.inf, x) * jnp.where(x < 0, 0, x),
    "0 / 0": lambda x: jnp.where(x < 0, 0, x) / jnp.where(x < 0, 0, x),
    "rem": lambda x: lax.rem(x, jnp.where(x < 0, 0, x)),
    "power": lambda x: x ** jnp.asarray(0.5, x.dtype),
    "sum": lambda x: jnp.sum(jnp.where(x < 0, jnp.inf, x)[:, None] * jnp.array([1, -1], x.dtype)),
    "dot": lambda x: jnp.where(x < 0, jnp.inf, x) @ jnp.maximum(x, 0),
    "cumsum": lambda x: jnp.cumsum(
        jnp.concatenate([1 / jnp.maximum(x, 0)] * 2) * SIGNS.astype(x.dtype)
    ),
}

HIDERS: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda x, y: jnp.where(jnp.isnan(y), 0, y),
    "comparison": lambda x, y: (y > 0).astype(x.dtype),
    "integer": lambda x, y: y.astype(jnp.int32).astype(x.dtype),
    "power of zero": lambda x, y: lax.pow(jnp.ones_like(y), y),
}


def _through_rules(f: Function, x: Any) -> Any:
    forwards = kiln.custom_jvp(lambda y: y)
    forwards.defjvp(lambda primals, tangents: (primals[0], tangents[0] * 0 + f(primals[0]).sum()))
    return kiln.jvp(forwards, (x,), (x,))[1]


def _through_pullback(f: Function, x: Any) -> Any:
    backwards = kiln.custom_vjp(lambda y: y)
    backwards.defvjp(lambda y: (y, y), lambda y, ct: (ct * 0 + f(y).sum(),))
    return kiln.grad(lambda y: backwards(y).sum())(x)


PLACES: dict[str, Callable[[Function, Any], Any]] = {
    "alone": lambda f, x: f(x),
    "jit": lambda f, x: kiln.jit(f)(x),
    "nested jit": lambda f, x: kiln.jit(lambda y: kiln.jit(f)(y + 0))(x),
    "scan": lambda f, x: lax.scan(lambda c, y: (c, f(y).sum()), 0, jnp.stack([abs(x), x]))[1],
    "carry": lambda f, x: lax.scan(lambda c, _: (c + 0 * f(c).sum(), None), x, None, length=2)[0],
    "while": lambda f, x: lax.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] + 0 * f(c[1]).sum()), (0, x)
    )[1],
    "condition": lambda f, x: lax.while_loop(
        lambda c: (c < 2) & (f(x).sum() < 1e9), lambda c: c + 1, 0
    ),
    "cond": lambda f, x: lax.cond(x[1] > 0, lambda y: f(y).sum(), lambda y: y.sum(), x),
    "switch": lambda f, x: lax.switch(1, [lambda y: y.sum(), lambda y: f(y).sum()], x),
    "vmap": lambda f, x: kiln.vmap(f)(jnp.stack([abs(x), x])),
    "map": lambda f, x: lax.map(f, jnp.stack([abs(x), x])),
    "checkpoint": lambda f, x: kiln.checkpoint(f)(x),
    "remat": lambda f, x: kiln.value_and_grad(kiln.checkpoint(lambda y: f(y).sum()))(x)[0],
    "grad": lambda f, x: kiln.value_and_grad(lambda y: f(y).sum())(x)[0],
    "jvp": lambda f, x: kiln.jvp(f, (x,), (x,))[0],
    "custom_jvp": _through_rules,
    "custom_vjp": _through_pullback,
    "one of two": lambda f, x: {"a": x, "b": f(x)},
}
DTYPES = ("float16", "bfloat16", "float32", "float64")


def _reports(f: Function, x: Any, engine: str) -> dict[str, bool]:
    """Return who reports a nan."""
    found: dict[str, bool] = {}
    with override(engine=None if engine == "native" else engine):
        error, _ = kiln.jit(checkify.checkify(f, errors=checkify.nan_checks))(x)
    found["checkify"] = error.get() is not None
    if engine == "native":
        try:
            kiln.jit(f, check="nan")(x)
            found["check"] = False
        except FloatingPointError as raised:
            found["check"] = "invalid value (nan)" in str(raised)
    return found


def _wrong(
    makers: Iterable[str],
    hiders: Iterable[str],
    places: Iterable[str],
    dtype: str = "float32",
    engine: str = "native",
) -> list[Any]:
    found = []
    for maker, hider, place in itertools.product(makers, hiders, places):
        make, hide, around = MAKERS[maker], HIDERS[hider], PLACES[place]
        hidden = lambda x, make=make, hide=hide: hide(x, make(x))
        f = lambda x, hidden=hidden, around=around: around(hidden, x)
        for operands in (BAD, GOOD):
            x = jnp.array(operands, dtype)
            for who, reported in _reports(f, x, engine).items():
                if reported != (operands is BAD):
                    found.append((maker, hider, place, dtype, engine, who, reported))
    return found


def test_what_is_hidden_at_once() -> None:
    assert _wrong(MAKERS, ["where"], ["alone"]) == []
    assert _wrong(["log"], HIDERS, ["alone"]) == []


def test_what_is_hidden_elsewhere() -> None:
    assert _wrong(["sqrt"], ["where"], ["scan", "while", "vmap", "remat", "custom_vjp"]) == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_hidden_in_half_precision(dtype: str) -> None:
    assert _wrong(["log"], ["where"], ["alone"], dtype) == []


def test_either_part_of_a_complex_number() -> None:
    inf = np.float32(np.inf)
    for x in (complex(inf, 0), complex(0, inf), complex(inf, inf)):
        for part in (jnp.real, jnp.imag, lambda y: y):
            # (a + bi) (0 + 0i): parts that are nan, and parts that are not.
            with np.errstate(invalid="ignore"):
                product = np.complex64(x) * np.complex64(0)
            if not np.isnan(part(np.array(product))):
                continue
            f = lambda z, part=part: jnp.where(jnp.isnan(part(z * 0)), 0, 1)
            assert set(_reports(f, jnp.array(x, "complex64"), "native").values()) == {True}
    f = lambda z: jnp.where(jnp.isnan(z * 0), 0, 1)
    assert set(_reports(f, jnp.array(1 + 2j, "complex64"), "native").values()) == {False}


def test_the_sign_of_an_infinite_complex_number() -> None:
    f = lambda z: jnp.where(jnp.isnan(lax.sign(z)), 0, 1)
    assert set(_reports(f, jnp.array(complex(np.inf, 0), "complex64"), "native").values()) == {True}
    assert set(_reports(f, jnp.array(1 + 2j, "complex64"), "native").values()) == {False}


def test_what_is_no_computation_is_not_reported() -> None:
    """Empty arrays, and a nan of the program that a `where` does not choose."""
    for f in (
        lambda x: jnp.sqrt(x[:0]),
        lambda x: jnp.where(x > 5, jnp.nan, x),
        lambda x: jnp.full((2,), jnp.nan)[:0],
        lambda x: lax.sort(jnp.array([2.0, np.nan])) if x is None else x,
    ):
        assert set(_reports(f, jnp.array(BAD), "native").values()) == {False}


def test_divisions_by_zero() -> None:
    divide = {
        "div": lambda x, y: x / y,
        "lax.div": lax.div,
        "floor_divide": lambda x, y: x // y,
        "rem": lax.rem,
        "negative power": lambda x, y: x * lax.integer_pow(y, -2),
        "reciprocal": lambda x, y: x * jnp.reciprocal(y),
    }
    of_integers = ("lax.div", "floor_divide", "rem")
    for (name, f), dtype in itertools.product(divide.items(), ("int32", "uint8", "float32")):
        if dtype != "float32" and name not in of_integers:
            continue
        checked = kiln.jit(checkify.checkify(f, errors=checkify.div_checks))
        for y in ([1, 2], [3, 0]):
            error, _ = checked(jnp.array([5, 6], dtype), jnp.array(y, dtype))
            assert (error.get() is not None) == (0 in y), (name, dtype, y)
    # The remainder of an integer by zero is zero: nothing is divided.
    error, out = checkify.checkify(jnp.remainder, errors=checkify.div_checks)(
        jnp.array([5, 6]), jnp.array([0, 4])
    )
    assert error.get() is None and out.tolist() == [0, 2]


@pytest.mark.full
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("engine", ["native", "xla", "reference"])
def test_every_way_in_every_place(place: str, engine: str) -> None:
    assert _wrong(MAKERS, ["where"], [place], engine=engine) == []


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hider", HIDERS)
def test_every_way_to_hide(dtype: str, hider: str) -> None:
    with kiln.enable_x64(dtype == "float64"):
        assert _wrong(MAKERS, [hider], ["alone", "scan"], dtype) == []
