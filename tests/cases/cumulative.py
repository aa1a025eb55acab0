"""Cases of running reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.ops.reductions import cumulative as ops
from tests.cases.case import Case, Operand

APART = Operand((2, 5), values=[[1.0, 3.0, -2.0, 0.5, 4.0], [0.0, 4.0, 5.5, -1.0, 1.0]])
FIXED_LENGTH = "the length of the axis decides the program of the derivative"


def _family(primitive: Any, function: Callable[..., Any], operand: Operand) -> list[Case]:
    return [
        Case(primitive, lambda x: function(x, 1), (operand,), differentiable=(0,)),
        Case(
            primitive,
            lambda x: function(x, 0, True),
            (operand,),
            "reverse ",
            differentiable=(0,),
            named=((0, 1),),
        ),
        Case(primitive, lambda x: function(x, 1), (Operand((2, 4)),), differentiable=(0,)),
        Case(primitive, lambda x: function(x), (Operand((1,)),), differentiable=(0,)),
        Case(primitive, lambda x: function(x), (Operand((0,)),), "of nothing "),
        Case(
            primitive, lambda x: function(x), (Operand((40,), "bfloat16", 1, 1.1),), tolerance=0.02
        ),
        Case(
            primitive,
            lambda x: function(x, 1),
            (Operand((3, 3), values=[[1, np.nan, 2], [-np.inf, 0, np.inf], [0, -0.0, 1]]),),
            "nan and inf ",
        ),
    ]


def _integers(primitive: Any, function: Callable[..., Any]) -> list[Case]:
    return [Case(primitive, lambda x: function(x), (Operand((7, 2), "int8", -9, 9),))]


CASES = [
    *_family(ops.cumsum_p, ops.cumsum, Operand((2, 5))),
    *_integers(ops.cumsum_p, ops.cumsum),
    *_family(ops.cumprod_p, ops.cumprod, Operand((2, 5))),
    *_integers(ops.cumprod_p, ops.cumprod),
    Case(
        ops.cumprod_p,
        ops.cumprod,
        (Operand((5,), values=[2.0, 0.0, 3.0, 0.0, 1.0]),),
        "zeros ",
        differentiable=(0,),
    ),
    Case(ops.cumprod_p, ops.cumprod, (Operand((4,), "complex64"),), differentiable=(0,)),
    *_family(ops.cummax_p, ops.cummax, APART),
    *_integers(ops.cummax_p, ops.cummax),
    *_family(ops.cummin_p, ops.cummin, APART),
    *_integers(ops.cummin_p, ops.cummin),
    *_family(ops.cumlogsumexp_p, ops.cumlogsumexp, Operand((2, 5))),
]
