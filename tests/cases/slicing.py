"""Cases of slices, padding, joining and splitting."""

from __future__ import annotations

from typing import Any

from kiln.ops.indexing import slicing as ops
from tests.cases.case import Case, Operand

MATRIX = Operand((3, 5))
START = Operand((), "int32", values=1)
OUTSIDE = Operand((), "int32", values=9)
BEFORE = Operand((), "int32", values=-4)


def _dynamic_slice(x: Any, i: Any, j: Any) -> Any:
    return ops.dynamic_slice_p.bind(x, i, j, slice_sizes=(2, 3))


def _dynamic_update(x: Any, update: Any, i: Any, j: Any) -> Any:
    return ops.dynamic_update_slice_p.bind(x, update, i, j)


CASES: list[Case] = [
    Case(
        ops.slice_p,
        lambda x: ops.slice(x, (1, 0), (3, 4)),
        (MATRIX,),
        differentiable=(0,),
        named="limits are numbers",
    ),
    Case(
        ops.slice_p,
        lambda x: ops.slice_in_dim(x, 1, None, 2, 0),
        (Operand((4, 5)),),
        "strided ",
        differentiable=(0,),
        named=((0, 1),),
    ),
    Case(
        ops.slice_p,
        lambda x: ops.slice(x, (2, 4), (2, 5), (1, 3)),
        (MATRIX,),
        "empty ",
        differentiable=(0,),
    ),
    Case(ops.slice_p, lambda x: ops.slice(x, (0, 1), (3, 5), (2, 3)), (Operand((3, 5), "bool"),)),
    Case(
        ops.pad_p,
        lambda x, v: ops.pad(x, v, ((1, 2, 0), (0, 1, 2))),
        (MATRIX, Operand(())),
        differentiable=(0, 1),
        named=((0, 0),),
    ),
    Case(
        ops.pad_p,
        lambda x, v: ops.pad(x, v, ((-1, 2, 1), (3, -4, 0))),
        (MATRIX, Operand(())),
        "cropping ",
        differentiable=(0, 1),
        named="cropping takes numbers from a name",
    ),
    Case(
        ops.pad_p,
        lambda x, v: ops.pad(x, v, ((1, 1, 3),)),
        (Operand((0,)), Operand(())),
        "empty ",
        differentiable=(0, 1),
    ),
    Case(
        ops.pad_p,
        lambda x, v: ops.pad(x, v, ((-5, 2, 2),)),
        (Operand((3,), "int32"), Operand((), "int32")),
        "cropping into the gaps ",
    ),
    Case(
        ops.concatenate_p,
        lambda x, y, z: ops.concatenate([x, y, z], 1),
        (Operand((3, 2)), Operand((3, 0)), Operand((3, 4))),
        differentiable=(0, 1, 2),
        named=((0, 0), (1, 0), (2, 0)),
    ),
    Case(
        ops.concatenate_p,
        lambda x, y: ops.concatenate([x, y], 0),
        (Operand((2,), "bfloat16"), Operand((3,), "bfloat16")),
        named=((0, 0),),
    ),
    Case(
        ops.split_p,
        lambda x: ops.split(x, (1, 0, 4), 1),
        (MATRIX,),
        differentiable=(0,),
        named=((0, 0),),
    ),
    Case(ops.split_p, lambda x: ops.split(x, (2, 1)), (Operand((3, 2), "int8"),)),
    Case(
        ops.dynamic_slice_p,
        _dynamic_slice,
        (MATRIX, START, START),
        differentiable=(0,),
        named="windows must fit",
    ),
    Case(ops.dynamic_slice_p, _dynamic_slice, (MATRIX, OUTSIDE, BEFORE), "outside ", (0,)),
    Case(
        ops.dynamic_slice_p,
        lambda x, i: ops.dynamic_slice_in_dim(x, i, 1, 0, allow_negative_indices=False),
        (MATRIX, Operand((), "uint8", values=2)),
        differentiable=(0,),
        named=((0, 1),),
    ),
    Case(
        ops.dynamic_update_slice_p,
        _dynamic_update,
        (MATRIX, Operand((2, 3)), START, START),
        differentiable=(0, 1),
        named="windows must fit",
    ),
    Case(
        ops.dynamic_update_slice_p,
        _dynamic_update,
        (MATRIX, Operand((2, 3)), OUTSIDE, BEFORE),
        "outside ",
        (0, 1),
    ),
    Case(
        ops.dynamic_update_slice_p,
        lambda x, u, i: ops.dynamic_update_slice_p.bind(x, u, i),
        (Operand((4,), "bool"), Operand((4,), "bool"), Operand((), "int64", values=0)),
        "whole ",
    ),
]
