"""conv_general_dilated as StableHLO.

Operands are converted to the dtype of accumulation. On the CPU XLA does not support convolutions of
complex numbers: they become four real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.elements.conversion import convert
from kiln.engines.xla.lowerings.elements.elementwise import imaginary_part, is_complex, real_part
from kiln.engines.xla.lowerings.reductions.window import pairs
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.engines.xla.stablehlo.text import int_array
from kiln.ir.types import ShapedArray
from kiln.ops.linear import convolution as ops
from kiln.ops.linear.contraction import Precision, accumulator_dtype
from kiln.ops.linear.convolution_numbers import ConvDimensionNumbers

Out = Sequence[ShapedArray]


def _axes(spec: Sequence[int], special: str) -> str:
    names = {spec[0]: special[0], spec[1]: special[1]}
    names.update((axis, str(i)) for i, axis in enumerate(spec[2:]))
    return f"[{', '.join(names[axis] for axis in range(len(spec)))}]"


def _conv_general_dilated(
    b: Builder, out: Out, x: Value, w: Value, *, preferred_element_type: Any, **params: Any
) -> Value:
    dtype = accumulator_dtype(x.dtype, w.dtype, out[0].dtype)
    result = out[0].with_(dtype=dtype)
    boolean = dtype == np.bool_
    if boolean:
        dtype = np.dtype(np.int32)
        result = out[0].with_(dtype=dtype)
    x, w = convert(b, x, dtype), convert(b, w, dtype)
    if not is_complex(x):
        return convert(b, _convolve(b, result, x, w, **params), out[0].dtype)
    part = out[0].with_(dtype=np.dtype(f"f{dtype.itemsize // 2}"))
    re_x, im_x, re_w, im_w = (f(b, v) for v in (x, w) for f in (real_part, imaginary_part))

    def product(p: Value, q: Value) -> Value:
        return _convolve(b, part, p, q, **params)

    re = b.apply("subtract", product(re_x, re_w), product(im_x, im_w))
    im = b.apply("add", product(re_x, im_w), product(im_x, re_w))
    return convert(b, b.op("stablehlo.complex", [re, im], result), out[0].dtype)


def _convolve(
    b: Builder,
    result: ShapedArray,
    x: Value,
    w: Value,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
) -> Value:
    lhs, rhs, out = dimension_numbers
    # XLA computes convolutions that drop elements wrongly on CPUs, so they are dropped before.
    x, padding = _cropped(b, x, lhs, padding, lhs_dilation)
    if 0 in result.shape or 0 in x.shape:
        return b.constant(0, result)
    levels = ", ".join(
        f"#stablehlo<precision {p.name}>" for p in precision or (Precision.DEFAULT,) * 2
    )
    numbers = f"{_axes(lhs, 'bf')}x{_axes(rhs, 'oi')}->{_axes(out, 'bf')}"
    space = (
        f"window_strides = {int_array(window_strides)}, padding = {pairs(padding)}, "
        f"lhs_dilation = {int_array(lhs_dilation)}, rhs_dilation = {int_array(rhs_dilation)}, "
    )
    return b.op(
        "stablehlo.convolution",
        [x, w],
        result,
        (space if window_strides else "") + f"dimension_numbers = #stablehlo.conv<{numbers}>, "
        f"feature_group_count = {feature_group_count} : i64, "
        f"batch_group_count = {batch_group_count} : i64, precision_config = [{levels}]",
    )


def _cropped(
    b: Builder, x: Value, spec: Sequence[int], padding: Any, dilation: Sequence[int]
) -> tuple[Value, Any]:
    """Return the elements that negative padding does not drop, and the padding that is left."""
    edges = [(0, 0, 0)] * x.ndim
    left = []
    for axis, around, step in zip(spec[2:], padding, dilation, strict=True):
        # An element is dropped with the holes after it, some of which stay.
        low, high = (-(min(0, edge) // step) for edge in around)
        edges[axis] = (-low, -high, 0)
        left.append((around[0] + low * step, around[1] + high * step))
    if not any(map(any, edges)):
        return x, padding
    sizes = [size + sum(edge) for size, edge in zip(x.shape, edges, strict=True) if any(edge)]
    if any(size < 0 for size in sizes):
        return b.constant(0, x.aval.with_(shape=[0] * x.ndim)), padding
    return b.pad(x, b.constant(0, x.aval.with_(shape=())), edges), left


LOWERINGS: dict[Primitive, Lowering] = {ops.conv_general_dilated_p: _conv_general_dilated}
