"""Functions of elements give jax's values, dtypes and weak types, for operands of all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy
from tests.differential.operands import (
    Make,
    array,
    binary_operands,
    edges,
    plain,
    smooth,
    unary_operands,
)
from tests.differential.oracle import Case, Topic

UNARY = [
    "negative",
    "positive",
    "abs",
    "fabs",
    "sign",
    "square",
    "sqrt",
    "cbrt",
    "reciprocal",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arccosh",
    "arctanh",
    "deg2rad",
    "rad2deg",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "round",
    "isnan",
    "isinf",
    "isfinite",
    "isposinf",
    "isneginf",
    "signbit",
    "logical_not",
    "bitwise_not",
    "bitwise_count",
    "conj",
    "real",
    "imag",
    "angle",
    "sinc",
    "i0",
    "nan_to_num",
    "frexp",
    "modf",
    "spacing",
    "iscomplex",
    "isreal",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "mod",
    "fmod",
    "divmod",
    "power",
    "float_power",
    "arctan2",
    "hypot",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "logaddexp",
    "logaddexp2",
    "heaviside",
    "copysign",
    "nextafter",
    "ldexp",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
    "gcd",
    "lcm",
    "isclose",
]
# Where the reference's own precision is low, or its algorithm another one.
LOOSE = {"i0": 1e-4, "logaddexp2": 1e-4, "power": 1e-4, "float_power": 1e-4, "sinc": 1e-4}


def _applied(name: str, makes: tuple[Make, ...]) -> Any:
    return lambda lib: getattr(lib.numpy, name)(*[make(lib) for make in makes])


# What the reference computes by accident: kiln's answer is another one on purpose.
LEFT_OUT = {
    "round": ("bool", "True"),  # an unrelated error
    "spacing": ("float16",),  # the sign is lost
    "arctan2": ("complex64", "1+2j"),  # kiln refuses complex numbers
    "heaviside": ("incompatible",),  # kiln's error is the one of all other functions
    "copysign": ("incompatible",),
    "float_power": ("1+2j",),  # powers of a complex zero
    "power": ("int8", "int32", "uint8", "uint32"),  # see `integer_powers`
}


def _left_out(name: str, operand: str) -> bool:
    parts = operand.split(",")
    if name == "power":
        integers = len(parts) == 2 and parts[1] in LEFT_OUT[name] and "float" not in parts[0]
        return integers or "1+2j" in parts
    return any(part in LEFT_OUT.get(name, ()) for part in parts)


def integer_powers() -> Iterator[Case]:
    for dtype in ("int8", "uint8", "int32", "uint32"):
        base = array(np.array([0, 0, 2, 3, 7, 1], dtype))
        exponent = array(np.array([0, 3, 5, 4, 2, 6], dtype))
        for other, make in {"itself": exponent, "bool": array(np.array([True] * 6))}.items():
            yield Case("integer power", f"{dtype},{other}", _applied("power", (base, make)))
        yield Case("integer power", f"2,{dtype}", _applied("power", (plain(2), exponent)))
        for y in (0, 1, 2, 3, 5, -1, -2):
            yield Case("integer power", f"{dtype},{y}", _applied("power", (base, plain(y))))
            yield Case("integer power", f"**{dtype},{y}", lambda lib, b=base, y=y: b(lib) ** y)
    f = array(np.array([0.5, -2.0, 3.0], np.float32))
    for y in (0, 1, 2, 3, -1, -2, np.int32(3), 2.0, 0.5):
        yield Case("integer power", f"float32,{y!r}", _applied("power", (f, plain(y))))


def cases() -> Iterator[Case]:
    yield from integer_powers()
    for name in UNARY:
        for operand, make in unary_operands().items():
            if _left_out(name, operand):
                continue
            yield Case(name, operand, _applied(name, (make,)), LOOSE.get(name))
    for name in BINARY:
        for operand, makes in binary_operands().items():
            if _left_out(name, operand):
                continue
            yield Case(name, operand, _applied(name, makes), LOOSE.get(name))
    yield from choosing()


def choosing() -> Iterator[Case]:
    condition = array(np.array([True, False, True, True, False, False]))
    for operand, (x, y) in binary_operands().items():
        yield Case("where", operand, _where(condition, x, y))
    f, i = array(smooth("float32", (2, 3))), array(smooth("int32", (2, 3)))
    u = array(edges("uint8"))
    for name, makes in {
        "float-ints": (f, plain(0), plain(1)),
        "float-min": (f, plain(-1.5), plain(None)),
        "float-max": (f, plain(None), plain(0)),
        "int-floats": (i, plain(0.5), plain(2.5)),
        "uint8-wrapped": (u, plain(-1), plain(300)),
        "arrays": (f, f, i),
        "nothing": (f, plain(None), plain(None)),
    }.items():
        yield Case("clip", name, _applied("clip", makes))
    b = array(smooth("bool", (2, 3)))
    c = array(smooth("bool", (2, 3), "other"))
    yield Case("select", "two", lambda lib: lib.numpy.select([b(lib), c(lib)], [f(lib), i(lib)], 7))
    yield Case("select", "empty", lambda lib: lib.numpy.select([], []))
    yield Case(
        "piecewise",
        "functions",
        lambda lib: lib.numpy.piecewise(
            f(lib), [f(lib) < 0, f(lib) >= 0], [lambda x: -x, lambda x: 2 * x]
        ),
    )
    yield Case(
        "piecewise",
        "default",
        lambda lib: lib.numpy.piecewise(f(lib), [f(lib) < 0], [1.5, lambda x: x + 1]),
    )
    for decimals in (-1, 0, 2):
        yield Case("round to", f"float32,{decimals}", _rounded(f, decimals))
        yield Case("round to", f"int32,{decimals}", _rounded(i, decimals))
        yield Case("round to", f"2.567,{decimals}", _rounded(plain(2.567), decimals))
    for name, (x, y) in {
        "same": (f, f),
        "lists": (plain([1, 2]), plain([1, 2])),
        "shapes": (f, plain(1.0)),
        "values": (f, i),
    }.items():
        for function in ("array_equal", "array_equiv", "allclose"):
            yield Case(function, name, _applied(function, (x, y)))


def _where(condition: Make, x: Make, y: Make) -> Any:
    def run(lib: Any) -> Any:
        first = x(lib)
        six = getattr(first, "shape", ()) in ((), (6,))
        return lib.numpy.where(condition(lib) if six else True, first, y(lib))

    return run


def _rounded(make: Make, decimals: int) -> Any:
    return lambda lib: lib.numpy.round(make(lib), decimals)


TOPIC = Topic("numpy_ufuncs", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
