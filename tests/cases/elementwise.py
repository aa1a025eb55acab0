"""Cases of arithmetic, elementary functions, comparison, logic, bits, selection."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.ops.elements import elementwise as ops
from kiln.ops.elements import inverse_functions, rounding
from tests.cases.case import Case, Operand

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan]
INTEGERS = [0, 1, 2, 3, 7, 8, 31, 32, -1, -2, -8, 127, -128]
ALL = ("int8", "uint8", "int32", "float16", "bfloat16", "float32", "complex64")
FLOATING = ("float16", "bfloat16", "float32")
INEXACT = (*FLOATING, "complex64")
BITS = ("bool", "int8", "uint8", "int32")
COARSE = {"float16": 4e-3, "bfloat16": 2e-2, "complex64": 1e-4}


def tolerance(dtype: str) -> float:
    """Return how far engines may differ in a dtype."""
    return COARSE.get(dtype, 1e-5)


def spread(dtype: str) -> tuple[float, float]:
    """Return a range of random operands for arithmetic in a dtype."""
    return (0, 9) if dtype == "uint8" else (-9, 9) if dtype.startswith("int") else (-2, 2)


def edges(dtype: str, count: int) -> tuple[Operand, ...]:
    """Return `count` operands that meet in all combinations of edge values of a dtype."""
    if dtype == "bool":
        values: Any = np.array([False, True])
    elif dtype in FLOATING:
        values = np.array(FLOATS)
    else:
        info = np.iinfo(dtype)
        values = np.array(sorted({*INTEGERS, info.min, info.max, info.min + 1}))
        values = values[(values >= info.min) & (values <= info.max)]
    grid = np.meshgrid(*[values] * count, indexing="ij")
    return tuple(Operand((g.size,), dtype, values=g.ravel()) for g in grid)


def unary(
    primitive: Primitive,
    function: Any,
    dtypes: tuple[str, ...],
    low: float = -2,
    high: float = 2,
    moves: bool = True,
    at_edges: tuple[str, ...] = ("float32",),
) -> list[Case]:
    """Return rows of a function of one operand."""
    rows = []
    for dtype in dtypes:
        within = (low, high) if dtype in INEXACT else spread(dtype)
        smooth = moves and dtype in ("float32", "complex64")
        rows.append(
            Case(
                primitive,
                function,
                (Operand((2, 3), dtype, *within),),
                differentiable=(0,) if smooth else (),
                named=((0, 1),),
                tolerance=tolerance(dtype),
            )
        )
    for dtype in at_edges:
        rows.append(Case(primitive, function, edges(dtype, 1), "edges ", tolerance=2e-5))
    return rows


def binary(
    primitive: Primitive,
    function: Any,
    dtypes: tuple[str, ...],
    low: float = -2,
    high: float = 2,
    moves: tuple[int, ...] = (0, 1),
    at_edges: tuple[str, ...] = ("float32", "int32", "int8", "uint8"),
) -> list[Case]:
    """Return rows of a function of two operands, one of which may be a scalar."""
    rows = []
    for dtype in dtypes:
        within = (low, high) if dtype in INEXACT else spread(dtype)
        smooth = moves if dtype in ("float32", "complex64") else ()
        x, scalar = Operand((2, 3), dtype, *within), Operand((), dtype, *within)
        coarse = tolerance(dtype)
        rows.append(Case(primitive, function, (x, x), "", smooth, True, ((0, 1), (1, 1)), coarse))
        if dtype in ("float32", "int32", "bool"):
            rows.append(Case(primitive, function, (x, scalar), "", smooth, True, ((0, 0),), coarse))
            rows.append(Case(primitive, function, (scalar, x), "", smooth, True, ((1, 0),), coarse))
    for dtype in at_edges:
        if dtype in dtypes:
            rows.append(Case(primitive, function, edges(dtype, 2), "edges ", tolerance=2e-5))
    return rows


def _integer_pow(y: int, dtypes: tuple[str, ...]) -> list[Case]:
    rows = unary(
        ops.integer_pow_p, lambda x: ops.integer_pow_p.bind(x, y=y), dtypes, 0.5, 2, at_edges=()
    )
    integral = tuple(d for d in dtypes if d not in INEXACT)
    rows += [
        Case(ops.integer_pow_p, lambda x: ops.integer_pow_p.bind(x, y=y), edges(d, 1), f"y={y} ")
        for d in integral
    ]
    return rows


def _round(method: int) -> list[Case]:
    halves = Operand((8,), values=[0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.2, 8388609.0])

    def function(x: Any) -> Any:
        return rounding.round(x, method)

    return [
        *unary(rounding.round_p, function, FLOATING, 0.1, 0.4),
        Case(rounding.round_p, function, (halves,), "halves "),
    ]


MATRIX = Operand((2, 3))
WHICH = Operand((2, 3), "bool")
NUMBERED = Operand((2, 3), "int32", -1, 4)


CASES: list[Case] = [
    *binary(ops.add_p, ops.add, ALL),
    *binary(ops.sub_p, ops.sub, ALL),
    *binary(ops.mul_p, ops.mul, ALL),
    *binary(ops.div_p, ops.div, ALL, 0.5, 2),
    *binary(ops.rem_p, ops.rem, ALL[:-1], 0.7, 1.6),
    *binary(ops.max_p, ops.max, (*ALL, "bool")),
    *binary(ops.min_p, ops.min, (*ALL, "bool")),
    *binary(ops.pow_p, ops.pow, ALL, 0.5, 2, at_edges=("int8", "uint8", "int32")),
    *binary(ops.atan2_p, ops.atan2, FLOATING, 0.3, 2),
    *binary(ops.nextafter_p, ops.nextafter, FLOATING, moves=()),
    *binary(ops.eq_p, ops.eq, (*ALL, "bool"), moves=()),
    *binary(ops.ne_p, ops.ne, (*ALL, "bool"), moves=()),
    *binary(ops.lt_p, ops.lt, (*ALL[:-1], "bool"), moves=()),
    *binary(ops.le_p, ops.le, (*ALL[:-1], "bool"), moves=()),
    *binary(ops.gt_p, ops.gt, (*ALL[:-1], "bool"), moves=()),
    *binary(ops.ge_p, ops.ge, (*ALL[:-1], "bool"), moves=()),
    *binary(ops.and_p, ops.bitwise_and, BITS, moves=()),
    *binary(ops.or_p, ops.bitwise_or, BITS, moves=()),
    *binary(ops.xor_p, ops.bitwise_xor, BITS, moves=()),
    *binary(ops.shift_left_p, ops.shift_left, BITS[1:], moves=()),
    *binary(ops.shift_right_logical_p, ops.shift_right_logical, BITS[1:], moves=()),
    *binary(ops.shift_right_arithmetic_p, ops.shift_right_arithmetic, BITS[1:], moves=()),
    *unary(ops.not_p, ops.bitwise_not, BITS, moves=False, at_edges=BITS),
    *unary(ops.population_count_p, ops.population_count, BITS[1:], moves=False, at_edges=BITS[1:]),
    *unary(ops.clz_p, ops.clz, BITS[1:], moves=False, at_edges=BITS[1:]),
    *unary(ops.neg_p, ops.neg, ALL, at_edges=("float32", "int8", "uint8")),
    *unary(ops.sign_p, ops.sign, ALL, at_edges=("float32", "bfloat16", "int8", "uint8")),
    *unary(ops.abs_p, ops.abs, ALL, at_edges=("float32", "int8", "uint8")),
    *unary(ops.square_p, ops.square, ALL, at_edges=("float32", "int8", "uint8")),
    *unary(ops.floor_p, ops.floor, FLOATING, 0.1, 0.9),
    *unary(ops.ceil_p, ops.ceil, FLOATING, 0.1, 0.9),
    *_round(0),
    *_round(1),
    *unary(ops.sqrt_p, ops.sqrt, INEXACT, 0.3, 2),
    *unary(ops.rsqrt_p, ops.rsqrt, INEXACT, 0.3, 2),
    *unary(ops.cbrt_p, ops.cbrt, FLOATING, 0.3, 2),
    *unary(ops.exp_p, ops.exp, INEXACT),
    *unary(ops.exp2_p, ops.exp2, INEXACT),
    *unary(ops.expm1_p, ops.expm1, INEXACT),
    *unary(ops.log_p, ops.log, INEXACT, 0.3, 2),
    *unary(ops.log1p_p, ops.log1p, INEXACT, -0.6, 2),
    *unary(ops.sin_p, ops.sin, INEXACT),
    *unary(ops.cos_p, ops.cos, INEXACT),
    *unary(ops.tan_p, ops.tan, INEXACT, -1, 1),
    *unary(inverse_functions.asin_p, inverse_functions.asin, INEXACT, -0.8, 0.8),
    *unary(inverse_functions.acos_p, inverse_functions.acos, INEXACT, -0.8, 0.8),
    *unary(inverse_functions.atan_p, inverse_functions.atan, INEXACT, -0.8, 0.8),
    *unary(ops.sinh_p, ops.sinh, INEXACT),
    *unary(ops.cosh_p, ops.cosh, INEXACT),
    *unary(ops.tanh_p, ops.tanh, INEXACT, -1, 1),
    *unary(inverse_functions.asinh_p, inverse_functions.asinh, INEXACT, -0.8, 0.8),
    *unary(inverse_functions.acosh_p, inverse_functions.acosh, INEXACT, 1.2, 3),
    *unary(inverse_functions.atanh_p, inverse_functions.atanh, INEXACT, -0.8, 0.8),
    *unary(ops.logistic_p, ops.logistic, INEXACT),
    *unary(ops.is_finite_p, ops.is_finite, FLOATING, moves=False, at_edges=FLOATING),
    *unary(ops.copy_p, ops.copy_p.bind, (*ALL, "bool")),
    *unary(ops.stop_gradient_p, ops.stop_gradient_p.bind, (*ALL, "bool"), moves=False),
    *_integer_pow(3, ALL),
    *_integer_pow(2, ("float32", "int8")),
    *_integer_pow(-2, ("float32", "complex64", "int8", "uint8")),
    *_integer_pow(-3, ("float32", "int8", "uint8")),
    *_integer_pow(0, ("float32", "int32")),
    Case(
        ops.pow_p,
        ops.pow,
        (Operand((2, 3), "float32", 0.5, 2), Operand((2, 3), "int32", -3, 3)),
        differentiable=(0,),
        named=((0, 0), (1, 0)),
    ),
    Case(
        ops.max_p,
        ops.max,
        (Operand((3,), values=[1, 2, 3]), Operand((3,), values=[1, 2, 4])),
        "ties ",
    ),
    *[
        Case(
            ops.select_n_p,
            ops.select_n,
            (WHICH, Operand((2, 3), dtype, *spread(dtype)), Operand((2, 3), dtype, *spread(dtype))),
            differentiable=(1, 2) if dtype in ("float32", "complex64") else (),
            named=((0, 1), (1, 1), (2, 1)),
        )
        for dtype in (*ALL, "bool")
    ],
    Case(
        ops.select_n_p, ops.select_n, (Operand((), "bool"), MATRIX, MATRIX), differentiable=(1, 2)
    ),
    Case(ops.select_n_p, ops.select_n, (WHICH, MATRIX, Operand(())), differentiable=(1, 2)),
    Case(
        ops.select_n_p,
        ops.select_n,
        (NUMBERED, MATRIX, Operand(()), MATRIX),
        "numbered ",
        differentiable=(1, 2, 3),
    ),
    Case(ops.select_n_p, ops.select_n, (NUMBERED, MATRIX, MATRIX), "two ", differentiable=(1, 2)),
    *[
        Case(
            ops.clamp_p,
            ops.clamp,
            (
                Operand((), dtype, 0, 1),
                Operand((2, 3), dtype, 0, 4),
                Operand((), dtype, 2, 3),
            ),
            differentiable=(0, 1, 2) if dtype == "float32" else (),
            named=((1, 1),),
        )
        for dtype in ALL[:-1]
    ],
    Case(
        ops.clamp_p,
        ops.clamp,
        (Operand((2, 3), low=-1, high=0), MATRIX, Operand((2, 3), low=0, high=1)),
        differentiable=(0, 1, 2),
        named=((0, 0), (1, 0), (2, 0)),
    ),
    Case(ops.clamp_p, ops.clamp, edges("float32", 3), "edges "),
    Case(ops.clamp_p, ops.clamp, edges("int8", 3), "edges "),
]
