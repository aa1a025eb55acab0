"""Convolutions by a kernel, which reads operands with their axes in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.engines.native.builder import Builder, Lowering, Unsupported
from kiln.engines.native.layout import Layout
from kiln.engines.native.lowerings.contraction import converted, kernel_name
from kiln.engines.native.lowerings.conversion import convert
from kiln.engines.native.lowerings.matrices import as_it_lies
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops import convolution as ops
from kiln.ops.contraction import accumulator_dtype

Out = Sequence[ShapedArray]
_MOST_AXES = 6


def _conv_general_dilated(
    b: Builder,
    out: Out,
    x: Layout,
    w: Layout,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **_: Any,
) -> Layout:
    rank = len(window_strides)
    if rank > _MOST_AXES:
        raise Unsupported(f"convolutions over {rank} axes have no native lowering")
    dtype = accumulator_dtype(x.dtype, w.dtype, out[0].dtype)
    if not x.dtype == w.dtype == out[0].dtype:
        x, w = converted(b, x, dtype), converted(b, w, dtype)
    else:
        # The kernel for 16-bit floats rounds once, at the end.
        dtype = out[0].dtype
    lhs, rhs, result = dimension_numbers
    (x, x_axes), (w, w_axes) = as_it_lies(b, x), as_it_lies(b, w)
    made = b.space(b.sizes(out[0]), dtype)
    numbers = [rank, feature_group_count, batch_group_count]
    numbers += [*x.shape, *w.shape, *made.shape]
    numbers += [*[x_axes[d] for d in lhs], *[w_axes[d] for d in rhs], *result]
    for stride, (low, _high), dilation, spread in zip(
        window_strides, padding, lhs_dilation, rhs_dilation, strict=True
    ):
        numbers += [stride, low, dilation, spread]
    if made.size:
        b.kernel(f"kiln_conv_{kernel_name(dtype)}", [x, w], [made], numbers)
    if dtype == out[0].dtype:
        return made
    return b.map(out[0], lambda v: convert(v, out[0].dtype), made)


LOWERINGS: dict[Operation, Lowering] = {ops.conv_general_dilated_p: _conv_general_dilated}
