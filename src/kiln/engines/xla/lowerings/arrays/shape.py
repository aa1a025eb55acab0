"""Shape operations as StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.engines.xla.stablehlo.text import host_dtype, int_array
from kiln.ir.sizes.size import Size
from kiln.ir.types import ShapedArray
from kiln.ops import counting
from kiln.ops import shape as ops
from kiln.ops.size_value import size_value_p

Out = Sequence[ShapedArray]
_FLOAT32 = np.dtype(np.float32)


def _broadcast_in_dim(
    b: Builder, out: Out, x: Value, *, shape: Any, broadcast_dimensions: Any
) -> Value:
    return b.broadcast(x, out[0], broadcast_dimensions)


def _reshape(b: Builder, out: Out, x: Value, **_: Any) -> Value:
    return b.reshape(x, out[0].shape)


def _transpose(b: Builder, out: Out, x: Value, *, permutation: Any) -> Value:
    return b.transpose(x, permutation)


def _rev(b: Builder, out: Out, x: Value, *, dimensions: Any) -> Value:
    return b.op("stablehlo.reverse", [x], out[0], f"dimensions = {int_array(dimensions)}")


def _iota(b: Builder, out: Out, *, dtype: Any, shape: Any, dimension: int) -> Value:
    if out[0].dtype == np.bool_:
        counted = b.iota(out[0].with_(dtype=np.dtype(np.int32)), dimension)
        return b.compare("NE", counted, b.like(0, counted))
    return b.iota(out[0], dimension)


def _reduce_sum(b: Builder, out: Out, x: Value, *, axes: Any) -> Value:
    dtype = x.dtype
    if dtypes.issubdtype(dtype, np.floating) and dtypes.bit_width(dtype) < 32:
        # Narrow floats are accumulated in 32 bits.
        return b.convert(b.reduce_with("add", b.convert(x, _FLOAT32), 0, axes), dtype)
    return b.reduce_with("add", x, 0, axes)


def _size_value(b: Builder, out: Out, *, size: Any, **_: Any) -> Value:
    if type(size) is Size:
        return b.constant(size, out[0])
    return b.constant(np.asarray(size).astype(host_dtype(out[0])[1]), out[0])


LOWERINGS: dict[Primitive, Lowering] = {
    ops.broadcast_in_dim_p: _broadcast_in_dim,
    ops.reduce_sum_p: _reduce_sum,
    ops.reshape_p: _reshape,
    ops.transpose_p: _transpose,
    ops.rev_p: _rev,
    ops.squeeze_p: _reshape,
    counting.iota_p: _iota,
    size_value_p: _size_value,
}
