"""The layout of a value in memory: a buffer, an offset, a stride per axis.

Operations that only rearrange axes or skip elements change the layout and access no element. Plans
number their buffers; in programs a buffer is a `Buffer`, and an offset may be an `Index`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base.records import Record
from kiln.ir.operation import Operation
from kiln.ops import shape
from kiln.ops.elements import elementwise
from kiln.ops.indexing import static_slicing


class Layout(Record):
    """Elements of a dtype in a buffer, `strides` bytes apart along each axis.

    In programs with named axes, sizes and strides may be sizes of these.
    """

    buffer: Any
    offset: Any
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> Any:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> Any:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether the elements are contiguous in row-major order."""
        expected = self.dtype.itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return bool(self.size == 0)
            expected *= size
        return True

    def with_axes(self, axes: Sequence[tuple[Any, Any]], offset: Any = 0) -> Layout:
        """Return a layout with other axes: their sizes and strides."""
        sizes, strides = tuple(n for n, _ in axes), tuple(s for _, s in axes)
        return Layout(self.buffer, self.offset + offset, sizes, strides, self.dtype)

    def moved(self, offset: Any) -> Layout:
        """Return the layout with the same axes at another offset."""
        return Layout(self.buffer, offset, self.shape, self.strides, self.dtype)

    def spread(self, to: tuple[Any, ...]) -> Layout:
        """Return the layout of a scalar broadcast to a shape, or the layout itself."""
        return self if self.shape == to else self.with_axes([(n, 0) for n in to])


def dense(buffer: Any, sizes: Sequence[Any], dtype: np.dtype[Any]) -> Layout:
    """Return the layout of contiguous elements in row-major order."""
    shape = tuple(sizes)
    return Layout(buffer, 0, shape, _dense_strides(shape, dtype.itemsize), dtype)


@functools.lru_cache(maxsize=1024)
def _dense_strides(shape: tuple[Any, ...], itemsize: int) -> tuple[Any, ...]:
    strides, step = [], itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _broadcast(x: Layout, *, shape: Any, broadcast_dimensions: Any) -> Layout:
    axes = [(n, 0) for n in shape]
    for n, stride, d in zip(x.shape, x.strides, broadcast_dimensions, strict=True):
        axes[d] = (shape[d], stride if n == shape[d] else 0)
    return x.with_axes(axes)


def _reshape(x: Layout, *, new_sizes: Any, dimensions: Any = None) -> Layout | None:
    if not x.is_dense:
        return None
    made = dense(x.buffer, new_sizes, x.dtype)
    return made.moved(x.offset)


def _transpose(x: Layout, *, permutation: Any) -> Layout:
    return x.with_axes([(x.shape[i], x.strides[i]) for i in permutation])


def _reverse(x: Layout, *, dimensions: Any) -> Layout | None:
    if x.size == 0:
        return None
    reversed_strides = [-s if d in dimensions else s for d, s in enumerate(x.strides)]
    start = sum((x.shape[d] - 1) * x.strides[d] for d in dimensions)
    return x.with_axes(list(zip(x.shape, reversed_strides, strict=True)), start)


def _squeeze(x: Layout, *, dimensions: Any) -> Layout:
    axes = list(zip(x.shape, x.strides, strict=True))
    return x.with_axes([axis for d, axis in enumerate(axes) if d not in dimensions])


def _slice(x: Layout, *, start_indices: Any, limit_indices: Any, strides: Any) -> Layout:
    steps = strides or (1,) * len(x.shape)
    axes = [
        ((limit - start + step - 1) // step, stride * step)
        for start, limit, step, stride in zip(
            start_indices, limit_indices, steps, x.strides, strict=True
        )
    ]
    offset = sum(s * stride for s, stride in zip(start_indices, x.strides, strict=True))
    return x.with_axes(axes, offset)


def _same(x: Layout) -> Layout:
    return x


VIEWS: dict[Operation, Callable[..., Layout | None]] = {
    shape.broadcast_in_dim_p: _broadcast,
    shape.reshape_p: _reshape,
    shape.transpose_p: _transpose,
    shape.rev_p: _reverse,
    shape.squeeze_p: _squeeze,
    static_slicing.slice_p: _slice,
    elementwise.stop_gradient_p: _same,
}
"""Operations that only change the layout; None if elements must be copied."""
