"""Functions of `kiln.lax` that read or change elements at indices, by gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.numpy.arithmetic import remainder
from kiln.numpy.creation import asarray
from kiln.numpy.updates import applied
from kiln.ops.dimension_numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from kiln.ops.indexing import gather, scatter_add
from kiln.ops.shape import expand_dims, full
from kiln.ops.static_slicing import concatenate


def index_take(src: ArrayLike, idxs: Sequence[ArrayLike], axes: Sequence[int]) -> Array:
    """Return the elements at positions along some axes; the new axis of the positions comes first.

    There is a vector of integers for each of the axes, all of one length; they count modulo the
    sizes.
    """
    shape = aval_of(src).shape
    axes = tuple(axes)
    indices = concatenate([expand_dims(asarray(index), (1,)) for index in idxs], 1)
    indices = remainder(indices, np.array([[shape[axis] for axis in axes]], indices.dtype))
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(1, len(shape) - len(axes) + 1)),
        collapsed_slice_dims=axes,
        start_index_map=axes,
    )
    sizes = [1 if axis in axes else size for axis, size in enumerate(shape)]
    return gather(src, indices, numbers, sizes)


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Apply an elementwise function to the elements that a scatter of `update_shape` would write.

    It is applied repeatedly to those that the scatter would write repeatedly.

    Raises: TypeError for invalid dimension numbers; ValueError for an unknown mode.
    """
    x = asarray(operand)
    count = scatter_add(
        full(x.shape, 0, np.dtype(np.int32)),
        scatter_indices,
        full(update_shape, 1, np.dtype(np.int32)),
        dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )
    return applied(func, x, count)
