"""Convolutions by a kernel, which reads operands with any order of axes, or as nests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import Unsupported
from kiln.engines.native.building.matrix_calls import matrix_call
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.lowerings.linear.contraction import converted
from kiln.engines.native.lowerings.linear.depthwise import depthwise
from kiln.engines.native.lowerings.linear.matrices import as_it_lies
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.linear import convolution as ops
from kiln.ops.linear.contraction import accumulator_dtype
from kiln.ops.linear.convolution_numbers import ConvDimensionNumbers

Out = Sequence[ShapedArray]


def _conv_general_dilated(
    b: Builder, out: Out, x: Layout, w: Layout, *, dimension_numbers: Any, **params: Any
) -> Layout:
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


LOWERINGS: dict[Operation, Lowering] = {ops.conv_general_dilated_p: _conv_general_dilated}
