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
    product = _as_product(b, out, x, w, dimension_numbers, **params)
    if product is not None:
        return product
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


def _as_product(
    b: Builder,
    out: Out,
    x: Layout,
    w: Layout,
    dimension_numbers: ConvDimensionNumbers,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[Dim, Dim]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    feature_group_count: int,
    batch_group_count: int,
    **_: Any,
) -> Layout | None:
    """Return a convolution that is a product; None if it is another one.

    Along each axis its windows are single elements, or there is one window, of the whole operand:
    then the axis is summed over, as features are.
    """
    lhs, rhs, result = dimension_numbers
    if not feature_group_count == batch_group_count == 1 or {*lhs_dilation} - {1}:
        return None
    axes = list(zip(x.shape, x.strides, strict=True))
    summed, is_copied = [0], False
    for i, (low, high) in enumerate(padding):
        d, of_w, at = lhs[2 + i], rhs[2 + i], result[2 + i]
        apart = rhs_dilation[i] if out[0].shape[at] == 1 else window_strides[i]
        if w.shape[of_w] == 1 and (low, high) == (0, 0):
            axes[d] = (out[0].shape[at], x.strides[d] * window_strides[i])
            is_copied = is_copied or window_strides[i] != 1
        elif (
            out[0].shape[at] == 1
            and low == 0
            and high <= 0
            and x.shape[d] + high == (w.shape[of_w] - 1) * apart + 1
        ):
            axes[d] = (w.shape[of_w], x.strides[d] * apart)
            is_copied = is_copied or apart != 1
            summed.append(1 + i)
        else:
            return None
    if is_copied:
        x = b.dense(x.with_axes(axes))
    kept = [rhs[0], *[rhs[1 + i] for i in summed]]
    matrix = w.with_axes([(w.shape[d], w.strides[d]) for d in kept])
    contracted = ([lhs[1 + i] for i in summed], list(range(1, len(kept))))
    axes_of_x = [d for d in range(len(lhs)) if d not in contracted[0]]
    # The features of the result are where those of the operand are.
    if estimate(x.strides[lhs[1]]) == min(map(estimate, x.strides)):
        operands, order = (x, matrix), [*axes_of_x, lhs[1]]
    else:
        operands, order = (matrix, x), [lhs[1], *axes_of_x]
        contracted = (contracted[1], contracted[0])
    shape = tuple([out[0].shape[result[lhs.index(d)]] for d in order])
    made = dot_general(
        b,
        [ShapedArray(shape, out[0].dtype)],
        *operands,
        dimension_numbers=(contracted, ((), ())),
    )
    places = {result[lhs.index(d)]: i for i, d in enumerate(order)}
    return made.with_axes(
        [
            (made.shape[places[d]], made.strides[places[d]]) if d in places else (1, 0)
            for d in range(len(result))
        ]
    )


LOWERINGS: dict[Operation, Lowering] = {ops.conv_general_dilated_p: _conv_general_dilated}
