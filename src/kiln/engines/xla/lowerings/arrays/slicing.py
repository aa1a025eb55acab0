"""Slices, pads, concatenations and splits as StableHLO."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.types import ShapedArray
from kiln.ops.indexing import slicing as ops

Out = Sequence[ShapedArray]
_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)


def signed_index(b: Builder, x: Value, *, wide: bool = False) -> Value:
    """Return indices as int32, or as int64 if necessary or if `wide`."""
    if x.dtype == np.uint64:
        # The largest int64 is as far out of bounds as any index can be.
        x = b.apply("minimum", x, b.like(np.iinfo(np.int64).max, x))
    narrow = x.dtype.itemsize < 4 or x.dtype == np.int32
    return b.convert(x, _INT32 if narrow and not wide else _INT64)


def _slice(
    b: Builder, out: Out, x: Value, *, start_indices: Any, limit_indices: Any, strides: Any
) -> Value:
    return b.slice(x, start_indices, limit_indices, strides)


def _pad(b: Builder, out: Out, x: Value, padding: Value, *, padding_config: Any) -> Value:
    return b.pad(x, padding, padding_config)


def _concatenate(b: Builder, out: Out, *xs: Value, dimension: int) -> Value:
    return b.concatenate(xs, dimension)


def _split(b: Builder, out: Out, x: Value, *, sizes: Any, axis: int) -> list[Value]:
    parts = []
    for start, end in itertools.pairwise(itertools.accumulate(sizes, initial=0)):
        starts, limits = [0] * x.ndim, list(x.shape)
        starts[axis], limits[axis] = start, end
        parts.append(b.slice(x, starts, limits))
    return parts


def _starts(b: Builder, starts: Sequence[Value]) -> list[Value]:
    """Return start indices of one dtype."""
    narrow = [signed_index(b, start) for start in starts]
    wide = any(start.dtype == _INT64 for start in narrow)
    return [b.convert(start, _INT64) if wide else start for start in narrow]


def _dynamic_slice(b: Builder, out: Out, x: Value, *starts: Value, slice_sizes: Any) -> Value:
    return b.dynamic_slice(x, _starts(b, starts), slice_sizes)


def _dynamic_update_slice(b: Builder, out: Out, x: Value, update: Value, *starts: Value) -> Value:
    # The types of operands differ, so the operation is written as text.
    return b.op("stablehlo.dynamic_update_slice", [x, update, *_starts(b, starts)], out[0])


LOWERINGS: dict[Primitive, Lowering] = {
    ops.slice_p: _slice,
    ops.pad_p: _pad,
    ops.concatenate_p: _concatenate,
    ops.split_p: _split,
    ops.dynamic_slice_p: _dynamic_slice,
    ops.dynamic_update_slice_p: _dynamic_update_slice,
}
