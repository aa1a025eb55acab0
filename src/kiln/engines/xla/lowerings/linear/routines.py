"""Calls to matrix routines, which jaxlib or its plugins provide as custom calls.

The routines take batches of column-major matrices. Where one reports a failure, its results are
nan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.engines.xla.stablehlo.builder import Builder, Value
from kiln.engines.xla.stablehlo.text import int_list
from kiln.ir.sizes.size import is_constant
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import imag
from kiln.ops.elements.elementwise import bitwise_and, is_finite, select
from kiln.ops.elements.families import full_like
from kiln.ops.linear.lapack import NAN
from kiln.ops.linear.matrices import is_complex, real_part
from kiln.ops.reductions.reduction import reduce_and
from kiln.ops.shape import broadcast_in_dim

Result = tuple[tuple[Any, ...], Any, int]
"""One result of a routine: shape, dtype, number of axes of one matrix."""
Part = tuple[Sequence[Any], int]
"""A shape, and the number of axes of one matrix."""


def _layout(rank: int, core: int) -> str:
    """Return the order of axes in memory, fastest first: matrices are column-major."""
    inner = [rank - 2, rank - 1] if core == 2 else [rank - 1] if core == 1 else []
    order = [*inner, *range(rank - len(inner) - 1, -1, -1)]
    return f"dense<{int_list(order) if order else ''}> : tensor<{rank}xindex>"


def call(
    b: Builder,
    target: str,
    operands: Sequence[tuple[Value, int]],
    results: Sequence[Result],
    config: str = "",
    overwritten: Sequence[tuple[int, int]] = (),
) -> list[Value]:
    """Call a routine; `overwritten` pairs a result with the operand whose memory it reuses."""
    avals = [ShapedArray(shape, dtype) for shape, dtype, _ in results]
    aliases = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{out if len(avals) > 1 else ''}]"
        f", operand_index = {operand}, operand_tuple_indices = []>"
        for out, operand in overwritten
    )
    operand_layouts = [_layout(x.ndim, core) for x, core in operands]
    values = [x for x, _ in operands]
    sizes = ""
    if not all(is_constant(aval.shape) for aval in avals):
        # XLA reads the shapes of results from extra operands, and removes these.
        places = range(len(values), len(values) + len(avals))
        sizes = f", indices_of_shape_operands = dense<{[*places]}> : tensor<{len(avals)}xi64>"
        values += [b.vector(aval.shape, np.int32) for aval in avals]
        operand_layouts += [_layout(1, 1)] * len(avals)
    attrs = (
        f'api_version = 4 : i32, call_target_name = "{target}", '
        f"backend_config = {{{config}}}, "
        f"operand_layouts = [{', '.join(operand_layouts)}], "
        f"result_layouts = [{', '.join(_layout(len(s), core) for s, _, core in results)}], "
        f"output_operand_aliases = [{aliases}]{sizes}"
    )
    if b.module.partition.count > 1:
        parts = [(x.shape, core) for x, core in operands], [(s, core) for s, _, core in results]
        attrs += _split_by_stack(*parts)
    return b.op("stablehlo.custom_call", values, avals, attrs)


def _split_by_stack(operands: Sequence[Part], results: Sequence[Part]) -> str:
    """Return the sharding rule: batch axes may be sharded, but not a matrix.

    The batch axes are common to all operands and results.
    """
    sizes: list[Any] = list(operands[0][0][: len(operands[0][0]) - operands[0][1]])
    stack = len(sizes)
    if not stack:
        return ""

    def axes(shape: Sequence[Any], core: int) -> str:
        own = range(len(sizes), len(sizes) + core)
        sizes.extend(shape[len(shape) - core :] if core else ())
        return f"[{', '.join(map(_factor, [*range(stack), *own]))}]"

    sides = [", ".join([axes(*part) for part in side]) for side in (operands, results)]
    factors = ", ".join(f"{_factor(i)}={size}" for i, size in enumerate(sizes))
    return (
        f', mhlo.frontend_attributes = {{num_batch_dims = "{stack}"}}, sdy.sharding_rule = '
        f"#sdy.op_sharding_rule<({sides[0]})->({sides[1]}) {{{factors}}}, custom>"
    )


def _factor(number: int) -> str:
    # Shardy calls them i, j, ..., z, z_1, z_2, ...
    return chr(ord("i") + number) if number < 18 else f"z_{number - 17}"


def nan_unless(b: Builder, good: Value, x: Value) -> Value:
    """Return x where its matrix is valid, nan elsewhere."""
    mask = b.broadcast(good, ShapedArray(x.shape, np.dtype(np.bool_)), range(good.ndim))
    return b.select(mask, x, b.like(NAN if x.dtype.kind == "c" else np.nan, x))


def succeeded(b: Builder, info: Value) -> Value:
    """Return for which matrices a routine reported success."""
    return b.compare("EQ", info, b.like(0, info))


def finite_or_zero(x: Any) -> tuple[Any, Any]:
    """Return which matrices are finite, and the matrices with zeros in place of the others."""
    shape = x.shape
    number = real_part(x)
    inside = is_finite(number)
    if is_complex(x):
        inside = bitwise_and(inside, is_finite(imag(x)))
    finite = reduce_and(inside, (len(shape) - 2, len(shape) - 1))
    mask = broadcast_in_dim(finite, shape, range(len(shape) - 2))
    return finite, select(mask, x, full_like(x, 0))
