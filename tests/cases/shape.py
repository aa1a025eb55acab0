"""Cases of broadcasting, sums, reshaping, transposing, reversing, squeezing, counting."""

from __future__ import annotations

from typing import Any

from kiln.ops import counting
from kiln.ops import shape as ops
from kiln.ops.size_value import size_value, size_value_p
from tests.cases.case import Case, Operand
from tests.cases.elementwise import ALL, spread, tolerance

MATRIX = Operand((2, 3))
TENSOR = Operand((2, 3, 4))


def _over(dtypes: tuple[str, ...], primitive: Any, function: Any) -> list[Case]:
    return [
        Case(primitive, function, (Operand((2, 3), d, *spread(d)),), tolerance=tolerance(d))
        for d in dtypes
    ]


def _iota(shape: tuple[int, ...], dimension: int, dtype: str) -> Case:
    return Case(
        counting.iota_p,
        lambda: counting.broadcasted_iota(dtype, shape, dimension),
        (),
        f"{dtype}{list(shape)} ",
    )


CASES: list[Case] = [
    Case(
        ops.broadcast_in_dim_p,
        lambda x: ops.broadcast_in_dim(x, (4, *x.shape), (1, 2)),
        (MATRIX,),
        differentiable=(0,),
        named=((0, 1),),
    ),
    Case(
        ops.broadcast_in_dim_p,
        lambda x: ops.broadcast_in_dim(x, (x.shape[0], 5, x.shape[2]), (0, 1, 2)),
        (Operand((3, 1, 2)),),
        "stretch ",
        differentiable=(0,),
        named=((0, 0),),
    ),
    Case(
        ops.broadcast_in_dim_p,
        lambda x: ops.broadcast_in_dim(x, (2, 3), ()),
        (Operand(()),),
        differentiable=(0,),
    ),
    Case(
        ops.broadcast_in_dim_p,
        lambda x: ops.broadcast_in_dim(x, (1, 3), (1,)),
        (Operand((3,)),),
        differentiable=(0,),
    ),
    *_over(("bool", *ALL), ops.broadcast_in_dim_p, lambda x: ops.broadcast(x, (2,))),
    Case(
        ops.reduce_sum_p,
        lambda x: ops.reduce_sum(x, (1,)),
        (TENSOR,),
        differentiable=(0,),
        named=((0, 1),),
    ),
    Case(
        ops.reduce_sum_p,
        lambda x: ops.reduce_sum(x, (0, 2)),
        (TENSOR,),
        differentiable=(0,),
        named=((0, 1),),
    ),
    Case(ops.reduce_sum_p, lambda x: ops.reduce_sum(x, (0, 1, 2)), (TENSOR,), differentiable=(0,)),
    Case(ops.reduce_sum_p, lambda x: ops.reduce_sum(x, (0,)), (Operand((0, 3)),), "of nothing "),
    Case(
        ops.reduce_sum_p,
        lambda x: ops.reduce_sum(x, (0,)),
        (Operand((600,), "float16", 0, 1),),
        "many ",
        tolerance=2e-3,
    ),
    Case(
        ops.reduce_sum_p,
        lambda x: ops.reduce_sum(x, (0,)),
        (Operand((600,), "bfloat16", 0, 1),),
        "many ",
        tolerance=8e-3,
    ),
    Case(
        ops.reduce_sum_p,
        lambda x: ops.reduce_sum(x, (0,)),
        (Operand((40,), "int8", -128, 127),),
        "wrapping ",
    ),
    *_over(ALL, ops.reduce_sum_p, lambda x: ops.reduce_sum(x, (1,))),
    Case(
        ops.reshape_p,
        lambda x: ops.reshape(x, (x.shape[0] * x.shape[1], x.shape[2])),
        (TENSOR,),
        differentiable=(0,),
        named=((0, 0),),
    ),
    Case(ops.reshape_p, lambda x: ops.reshape(x, (3, 1, 2)), (MATRIX,), differentiable=(0,)),
    Case(ops.reshape_p, lambda x: ops.reshape(x, ()), (Operand((1, 1)),), differentiable=(0,)),
    Case(ops.reshape_p, lambda x: ops.reshape(x, (3, 0)), (Operand((0, 2)),)),
    *_over(("bool", *ALL), ops.reshape_p, lambda x: ops.reshape(x, (6,))),
    Case(
        ops.transpose_p,
        lambda x: ops.transpose(x, (2, 0, 1)),
        (TENSOR,),
        differentiable=(0,),
        named=((0, 1),),
    ),
    *_over(("bool", *ALL), ops.transpose_p, lambda x: ops.transpose(x, (1, 0))),
    Case(
        ops.rev_p,
        lambda x: ops.rev(x, (0, 2)),
        (TENSOR,),
        differentiable=(0,),
        named=((0, 2),),
    ),
    *_over(("bool", *ALL), ops.rev_p, lambda x: ops.rev(x, (1,))),
    Case(
        ops.squeeze_p,
        lambda x: ops.squeeze(x, (1, -1)),
        (Operand((3, 1, 2, 1)),),
        differentiable=(0,),
        named=((0, 2),),
    ),
    *_over(("bool", *ALL), ops.squeeze_p, lambda x: ops.squeeze(ops.expand_dims(x, (1,)), (1,))),
    Case(size_value_p, lambda: size_value(7), ()),
    _iota((4,), 0, "int32"),
    _iota((2, 3), 1, "float32"),
    _iota((3, 2), 0, "uint8"),
    _iota((3,), 0, "complex64"),
    _iota((0, 2), 1, "int32"),
    _iota((300,), 0, "bfloat16"),
    _iota((300,), 0, "int8"),
]
