"""Cases of dot_general."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.ops.linear import contraction as ops
from tests.cases.case import Case, Operand


def _dot(dimension_numbers: Any, preferred: Any = None) -> Callable[[Any, Any], Any]:
    return lambda x, y: ops.dot_general(x, y, dimension_numbers, preferred_element_type=preferred)


MATMUL = (((1,), (0,)), ((), ()))
CASES = [
    Case(
        ops.dot_general_p,
        _dot(MATMUL),
        (Operand((2, 3)), Operand((3, 4))),
        differentiable=(0, 1),
        named=((0, 0),),
    ),
    Case(
        ops.dot_general_p,
        _dot((((0,), (0,)), ((), ()))),
        (Operand((3,)), Operand((3,))),
        "inner",
        differentiable=(0, 1),
        named=((0, 0), (1, 0)),
    ),
    Case(
        ops.dot_general_p,
        _dot((((), ()), ((), ()))),
        (Operand((2,)), Operand((3,))),
        "outer",
        differentiable=(0, 1),
        named=((1, 0),),
    ),
    Case(
        ops.dot_general_p,
        _dot((((2, 1), (0, 3)), ((0, 4), (2, 1)))),
        (Operand((2, 3, 4, 5, 2)), Operand((4, 2, 2, 3, 3))),
        "two batch axes, two contracting axes, permuted",
        differentiable=(0, 1),
        named=((0, 3),),
    ),
    Case(
        ops.dot_general_p,
        _dot((((1,), (0,)), ((), ()))),
        (Operand((2, 3), "complex64"), Operand((3, 2), "complex64")),
        "complex",
        differentiable=(0, 1),
    ),
    Case(
        ops.dot_general_p,
        _dot(MATMUL),
        (Operand((2, 0)), Operand((0, 3))),
        "nothing to sum",
        differentiable=(0, 1),
    ),
    Case(
        ops.dot_general_p,
        _dot(MATMUL),
        (Operand((2, 3), "int8", -100, 100), Operand((3, 2), "int8", -100, 100)),
        "wraps",
    ),
    Case(
        ops.dot_general_p,
        _dot(MATMUL, "int32"),
        (Operand((2, 3), "int8", -100, 100), Operand((3, 2), "int8", -100, 100)),
        "widens",
    ),
    Case(ops.dot_general_p, _dot(MATMUL), (Operand((2, 3), "bool"), Operand((3, 2), "bool"))),
    Case(
        ops.dot_general_p,
        _dot(MATMUL),
        (Operand((2, 3), "bfloat16"), Operand((3, 2), "bfloat16")),
        tolerance=1e-2,
    ),
    Case(
        ops.dot_general_p,
        _dot(MATMUL, "float32"),
        (Operand((2, 3), "float16"), Operand((3, 2), "float16")),
        "accumulates in float32",
    ),
    Case(
        ops.dot_general_p,
        _dot(MATMUL),
        (Operand((2, 3), "int32"), Operand((3, 2), "float32")),
        "mixed dtypes",
        differentiable=(1,),
    ),
    Case(
        ops.dot_general_p,
        _dot(MATMUL, "int32"),
        (Operand((2, 3), "float32"), Operand((3, 2), "float32")),
        "truncates",
    ),
]
