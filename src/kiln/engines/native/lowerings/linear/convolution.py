"""Convolutions by a kernel, which reads operands with any order of axes, or as nests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import Unsupported
from kiln.engines.native.building.matrix_calls import matrix_call
from kiln.engines.native.loop_ir.extents import estimate
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.lowerings.linear.contraction import converted, dot_general
from kiln.engines.native.lowerings.linear.depthwise import depthwise
from kiln.engines.native.lowerings.linear.matrices import as_it_lies
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.ops.linear import convolution as ops
from kiln.ops.linear.contraction import accumulator_dtype
from kiln.ops.linear.convolution_numbers import ConvDimensionNumbers

Out = Sequence[ShapedArray]


def _conv_general_dilated(
    b: Builder, out: Out, x: Layout, w: Layout, *, dimension_numbers: Any, **params: Any
) -> Layout:
    pointwise = _pointwise(b, out, x, w, dimension_numbers, **params)
    if pointwise is not None:
        return pointwise
    dtype = out[0].dtype
    # The kernel for 16-bit floats accumulates in 32 bits and rounds once.
    if not x.dtype == w.dtype == dtype:
        dtype = accumulator_dtype(x.dtype, w.dtype, dtype)
        x, w = converted(b, x, dtype), converted(b, w, dtype)
    wide = ShapedArray(out[0].shape, dtype)
    made = b.room(wide)
    if depthwise(b, made, x, w, {**params, "dimension_numbers": dimension_numbers}):
        return converted(b, made, out[0].dtype)
    lhs, rhs, result = dimension_numbers
    (x, x_axes), (w, w_axes) = as_it_lies(b, x), as_it_lies(b, w)
    numbers = ConvDimensionNumbers(
        tuple([x_axes[d] for d in lhs]), tuple([w_axes[d] for d in rhs]), result
    )
    avals = [ShapedArray(v.shape, dtype) for v in (x, w)]
    call = matrix_call(
        "conv_general_dilated", avals, [wide], {**params, "dimension_numbers": numbers}
    )
    if call is None:
        raise Unsupported("no kernel computes convolutions of these types")
    if made.size != 0:
        b.kernel(call.symbol, [x, w], [made], call.numbers)
    return converted(b, made, out[0].dtype)


def _pointwise(
    b: Builder,
    out: Out,
    x: Layout,
    w: Layout,
    dimension_numbers: ConvDimensionNumbers,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    lhs_dilation: Sequence[int],
    feature_group_count: int,
    batch_group_count: int,
    **_: Any,
) -> Layout | None:
    """Return a convolution by windows of one element, which is a product; None if it has others."""
    lhs, rhs, result = dimension_numbers
    is_one = all(w.shape[d] == 1 for d in rhs[2:]) and all(p == (0, 0) for p in padding)
    if not is_one or not feature_group_count == batch_group_count == 1 or {*lhs_dilation} - {1}:
        return None
    axes = list(zip(x.shape, x.strides, strict=True))
    for d, at, stride in zip(lhs[2:], result[2:], window_strides, strict=True):
        axes[d] = (out[0].shape[at], x.strides[d] * stride)
    if {*window_strides} - {1}:
        x = b.dense(x.with_axes(axes))
    sizes = [(w.shape[d], w.strides[d]) for d in rhs[:2]]
    matrix = w.with_axes(sizes)
    axes_of_x = [d for d in range(len(lhs)) if d != lhs[1]]
    # The features of the result are where those of the operand are.
    if estimate(x.strides[lhs[1]]) == min(map(estimate, x.strides)):
        operands, contracted = (x, matrix), ((lhs[1],), (1,))
        order = [*axes_of_x, lhs[1]]
    else:
        operands, contracted = (matrix, x), ((1,), (lhs[1],))
        order = [lhs[1], *axes_of_x]
    shape = tuple([out[0].shape[result[lhs.index(d)]] for d in order])
    made = dot_general(
        b,
        [ShapedArray(shape, out[0].dtype)],
        *operands,
        dimension_numbers=(contracted, ((), ())),
    )
    places = [order.index(lhs[result.index(d)]) for d in range(len(result))]
    return made.with_axes([(made.shape[i], made.strides[i]) for i in places])


LOWERINGS: dict[Operation, Lowering] = {ops.conv_general_dilated_p: _conv_general_dilated}
