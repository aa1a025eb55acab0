"""The functions of `kiln.lax` give jax's values, dtypes, weak types, and kinds of errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kiln
import kiln.lax
from tests.differential.expressions import cases as expressions
from tests.differential.lax_expressions import GROUPS
from tests.differential.operands import array, edges, plain, smooth
from tests.differential.oracle import Case, Topic

UNARY = [
    "abs",
    "neg",
    "sign",
    "floor",
    "ceil",
    "square",
    "sqrt",
    "rsqrt",
    "cbrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "logistic",
    "is_finite",
    "population_count",
    "clz",
    "bitwise_not",
    "round",
    "reciprocal",
    "real",
    "imag",
    "conj",
    "erf",
    "erfc",
    "erf_inv",
    "lgamma",
    "digamma",
    "bessel_i0e",
    "bessel_i1e",
    "stop_gradient",
]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "rem",
    "max",
    "min",
    "pow",
    "atan2",
    "nextafter",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "shift_left",
    "shift_right_logical",
    "shift_right_arithmetic",
    "complex",
]
DTYPES = ("bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32", "complex64")
# The last digits of these differ between algorithms.
LOOSE = {"lgamma": 1e-4, "digamma": 1e-4, "erf_inv": 1e-4, "pow": 1e-4, "polygamma": 1e-3}
LOOSE |= {"zeta": 1e-4, "igamma": 1e-4, "igammac": 1e-4, "igamma_grad_a": 1e-3, "betainc": 1e-4}
LOOSE |= {"random_gamma_grad": 1e-3, "cumlogsumexp": 1e-4, "bessel_i0e": 1e-4, "bessel_i1e": 1e-4}
# What kiln computes and jax refuses, or computes in another way that is no better.
INTEGERS = ("int8", "uint8", "int32", "uint32")
ACCEPTED = {
    "abs": ("uint8", "uint32"),
    "conj": ("none",),
    "stop_gradient": ("2", "0.5", "list"),
    "pow": (*INTEGERS, "int32,2", "2,3"),
    "atan2": ("complex64",),
} | dict.fromkeys(("lt", "le", "gt", "ge"), ("complex64",))


def _applied(name: str, *makes: Any) -> Any:
    return lambda lib: getattr(lib.lax, name)(*[make(lib) for make in makes])


def _elementwise() -> Iterator[Case]:
    unary = {dtype: array(edges(dtype)) for dtype in DTYPES}
    unary |= {"2": plain(2), "0.5": plain(0.5), "True": plain(True), "weak": array(0.25)}
    unary |= {"empty": array(smooth("float32", (0, 2))), "matrix": array(smooth("float32", (2, 3)))}
    unary |= {"list": plain([1.0]), "none": plain(None), "text": plain("a")}
    for name in UNARY:
        for label, make in unary.items():
            if label not in ACCEPTED.get(name, ()):
                yield Case(name, label, _applied(name, make), LOOSE.get(name))
    x = array(smooth("float32", (6,)))
    row = array(smooth("float32", (1, 6)))
    pairs = {f"{dtype}": (array(edges(dtype)), array(edges(dtype, 1))) for dtype in DTYPES}
    pairs |= {
        "int32,2": (array(edges("int32")), plain(2)),
        "float32,0.5": (x, plain(0.5)),
        "int32,0.5": (array(edges("int32")), plain(0.5)),
        "2,3": (plain(2), plain(3)),
        "2.0,0.5": (plain(2.0), plain(0.5)),
        "float32,int32": (x, array(edges("int32"))),
        "float32,float16": (x, array(edges("float16"))),
        "float32,scalar": (x, array(smooth("float32", ()))),
        "scalar,float32": (array(smooth("float32", ())), x),
        "shapes": (x, array(smooth("float32", (4,)))),
        "ranks": (x, array(smooth("float32", (2, 6)))),
        "sizes of one": (row, array(smooth("float32", (4, 6)))),
        "empty": (array(smooth("float32", (0,))), plain(1.0)),
    }
    for name in BINARY:
        for label, makes in pairs.items():
            if label not in ACCEPTED.get(name, ()):
                yield Case(name, label, _applied(name, *makes), LOOSE.get(name))


TOPIC = Topic("lax", [*_elementwise(), *expressions(GROUPS, LOOSE)])


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
