"""Elements at positions: taken at indices of several axes, and changed in place by a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.ir.types import Shape
from kiln.numpy.indexing.updates import repeated
from kiln.ops.elements.elementwise import add, lt, rem, select
from kiln.ops.elements.families import full_like
from kiln.ops.indexing.indexing import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    gather,
    scatter_add,
)
from kiln.ops.indexing.static_slicing import concatenate
from kiln.ops.shape import expand_dims, full

_INT32 = np.dtype(np.int32)


def index_take(src: ArrayLike, idxs: Sequence[ArrayLike], axes: Sequence[int]) -> Array:
    """Return the parts of `src` at positions: `idxs` has a vector of positions for each axis.

    Positions count modulo the size of their axis. The result has one axis of positions, then the
    axes of `src` that are not among `axes`.

    Example:
        >>> x = jnp.arange(6).reshape(2, 3)
        >>> lax.index_take(x, (jnp.array([1, 0]), jnp.array([2, 0])), axes=(0, 1))
        Array([5, 0], dtype=int32)
    """
    shape = aval_of(src).shape
    columns = [
        expand_dims(_modulo(index, shape[axis]), (1,))
        for index, axis in zip(idxs, axes, strict=True)
    ]
    sizes = [1 if axis in axes else size for axis, size in enumerate(shape)]
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(1, len(shape) - len(columns) + 1)),
        collapsed_slice_dims=tuple(axes),
        start_index_map=tuple(axes),
    )
    return gather(src, concatenate(columns, 1), numbers, sizes)


def _modulo(index: Any, size: Any) -> Any:
    """Return the remainder of a position that has the sign of the size."""
    size = full_like(index, size)
    found = rem(index, size)
    return select(lt(found, full_like(found, 0)), add(found, size), found)


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Shape = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Apply an elementwise function to windows of the operand; repeatedly where they overlap.

    `update_shape` is the shape that updates of a `scatter` at these windows would have.

    Example:
        >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> x, indices = jnp.arange(4.0), jnp.array([[1], [3]])
        >>> lax.scatter_apply(x, indices, lambda v: -v, numbers, update_shape=(2,))
        Array([ 0., -1.,  2., -3.], dtype=float32)
    """
    aval = aval_of(operand)
    count = scatter_add(
        full(aval.shape, 0, _INT32),
        scatter_indices,
        full(update_shape, 1, _INT32),
        dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )
    return repeated(func, operand, count)
