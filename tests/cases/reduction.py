"""Cases of reductions over axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.ops.elements.elementwise import add, lt, mul, select
from kiln.ops.reductions import generic_reduction
from kiln.ops.reductions import reduction as ops
from kiln.ops.reductions.product import reduce_prod, reduce_prod_p
from tests.cases.case import Case, Operand

ZEROS = Operand((2, 3), values=[[0.0, 2.0, 3.0], [0.0, 0.0, 1.5]])
APART = Operand((2, 5), values=[[1.0, 3.0, -2.0, 0.5, 2.0], [0.0, 4.0, 5.5, -1.0, 1.0]])


def _extreme(primitive: Any, function: Any) -> list[Case]:
    return [
        Case(
            primitive,
            lambda x: function(x, (1,)),
            (APART,),
            differentiable=(0,),
            named=((0, 0),),
        ),
        Case(primitive, lambda x: function(x, (0, 2)), (Operand((2, 3, 4), "int32", -9, 9),)),
        Case(primitive, lambda x: function(x, (0,)), (Operand((0, 3)),), "of nothing "),
        Case(primitive, lambda x: function(x, (0,)), (Operand((0, 3), "uint8"),), "of nothing "),
        Case(primitive, lambda x: function(x, (0,)), (Operand((3, 2), "complex64"),)),
        Case(primitive, lambda x: function(x, (0,)), (Operand((3, 2), "bool"),)),
        Case(primitive, lambda x: function(x, (0,)), (Operand((3, 2), "bfloat16"),)),
        Case(
            primitive,
            lambda x: function(x, (1,)),
            (Operand((2, 3), values=[[1, np.nan, 2], [-np.inf, np.inf, 0]]),),
            "nan ",
        ),
    ]


def _position(primitive: Any, function: Any) -> list[Case]:
    return [
        Case(
            primitive,
            lambda x: function(x, 1, "int32"),
            (APART,),
            named=((0, 0),),
        ),
        Case(primitive, lambda x: function(x, 0, "uint8"), (Operand((7, 3), "int32", 0, 2),)),
        Case(primitive, lambda x: function(x, 0, "int32"), (Operand((5, 3), "bool"),)),
        Case(primitive, lambda x: function(x, 0, "int32"), (Operand((5, 3), "float16"),)),
        Case(
            primitive,
            lambda x: function(x, 1, "int32"),
            (Operand((2, 4), values=[[1, np.nan, 2, np.nan], [np.inf, -np.inf, -np.inf, np.inf]]),),
            "nan and inf ",
        ),
    ]


def _bits(primitive: Any, function: Any) -> list[Case]:
    return [
        Case(
            primitive,
            lambda x: function(x, (1,)),
            (Operand((2, 3), "int32", -99, 99),),
            named=((0, 0),),
        ),
        Case(primitive, lambda x: function(x, (0,)), (Operand((3, 4), "bool"),)),
        Case(primitive, lambda x: function(x, (0,)), (Operand((0, 2), "uint8"),), "of nothing "),
    ]


def _square_sum(acc: Any, x: Any) -> Any:
    return add(acc, mul(x, add(acc, 1.0)))


def _first_positive(acc: Any, x: Any) -> Any:
    return [select(lt(acc[0], x[0]), x[0], acc[0]), select(lt(acc[0], x[0]), x[1], acc[1])]


CASES = [
    *_extreme(ops.reduce_max_p, ops.reduce_max),
    *_extreme(ops.reduce_min_p, ops.reduce_min),
    Case(
        reduce_prod_p,
        lambda x: reduce_prod(x, (1,)),
        (Operand((2, 5)),),
        differentiable=(0,),
        named=((0, 0),),
    ),
    Case(
        reduce_prod_p,
        lambda x: reduce_prod(x, (0, 2)),
        (Operand((2, 3, 2)),),
        "two axes ",
        differentiable=(0,),
    ),
    Case(
        reduce_prod_p,
        lambda x: reduce_prod(x, (1,)),
        (ZEROS,),
        "zeros ",
        differentiable=(0,),
    ),
    Case(
        reduce_prod_p,
        lambda x: reduce_prod(x, (0,)),
        (Operand((0, 2)),),
        "of nothing ",
    ),
    Case(
        reduce_prod_p,
        lambda x: reduce_prod(x, (0,)),
        (Operand((9, 2), "int8", 1, 5),),
    ),
    Case(
        reduce_prod_p,
        lambda x: reduce_prod(x, (0,)),
        (Operand((3, 2), "complex64"),),
        differentiable=(0,),
    ),
    *_bits(ops.reduce_and_p, ops.reduce_and),
    *_bits(ops.reduce_or_p, ops.reduce_or),
    *_bits(ops.reduce_xor_p, ops.reduce_xor),
    *_position(ops.argmax_p, ops.argmax),
    *_position(ops.argmin_p, ops.argmin),
    Case(
        ops.reduce_precision_p,
        lambda x: ops.reduce_precision(x, 5, 10),
        (Operand((64,), low=-1e-4, high=1e-4),),
        named=((0, 0),),
    ),
    Case(
        ops.reduce_precision_p,
        lambda x: ops.reduce_precision(x, 11, 52),
        (Operand((3,)),),
        "nothing is lost ",
        differentiable=(0,),
    ),
    Case(
        ops.reduce_precision_p,
        lambda x: ops.reduce_precision(x, 5, 2),
        (Operand((8,), values=[np.nan, np.inf, -np.inf, 1e30, -0.0, 1e-30, 57344.0, 61440.0]),),
        "edges ",
    ),
    Case(
        ops.reduce_precision_p,
        lambda x: ops.reduce_precision(x, 8, 3),
        (Operand((16,), "bfloat16"),),
    ),
    Case(
        generic_reduction.reduce_p,
        lambda x: generic_reduction.reduce(x, 0.0, _square_sum, (1,)),
        (Operand((2, 1), low=-0.5, high=0.5),),
        "one element ",
        differentiable=(0,),
    ),
    Case(
        generic_reduction.reduce_p,
        lambda x, y: generic_reduction.reduce(
            [x, y], [-np.inf, np.int32(0)], _first_positive, (0,)
        ),
        (Operand((5, 3)), Operand((5, 3), "int32")),
        "two operands ",
        differentiable=(0,),
        named=((0, 1), (1, 1)),
    ),
]
