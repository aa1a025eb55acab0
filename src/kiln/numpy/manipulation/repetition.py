"""Repeating elements: tile, repeat."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, Axes
from kiln.core.trace import Tracer
from kiln.ir.sizes.size import Dim, Size
from kiln.numpy.creation.arrays import asarray, cast, concrete_number
from kiln.numpy.indexing.taking import take
from kiln.numpy.promotion import one, operands
from kiln.numpy.reductions.cumulative import cumsum
from kiln.numpy.search import searchsorted
from kiln.numpy.shapes import listed, ravel
from kiln.ops.out_sharding import sharded
from kiln.ops.shape import broadcast_in_dim, canonical_axis, expand_dims, reshape


def tile(A: ArrayLike, reps: Any) -> Array:
    """Repeat an array as a whole along axes.

    Example:
        >>> jnp.tile(jnp.array([1, 2]), 2)
        Array([1, 2, 1, 2], dtype=int32)
    """
    A = one("tile", A)
    counts = [operator.index(r) for r in listed(reps)]
    rank = len(A.shape)
    counts = [1] * (rank - len(counts)) + counts
    A = expand_dims(A, range(len(counts) - rank))
    if all(c == 1 for c in counts):
        return A
    # Each axis becomes (repeats, size).
    target = [n for pair in zip(counts, A.shape, strict=True) for n in pair]
    spread = broadcast_in_dim(A, target, range(1, len(target), 2))
    return reshape(spread, [c * n for c, n in zip(counts, A.shape, strict=True)])


def repeat(
    a: ArrayLike,
    repeats: Any,
    axis: Axes = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Repeat each element along an axis, or of the flattened array.

    Under a trace, traced `repeats` need `total_repeat_length`.

    Example:
        >>> jnp.repeat(jnp.array([1, 2]), 2)
        Array([1, 1, 2, 2], dtype=int32)
    """
    count = repeats
    a, repeats = operands(
        "repeat", a, np.asarray(repeats) if isinstance(repeats, list) else repeats
    )
    a = one("repeat", a)
    if axis is None:
        a, axis = ravel(a), 0
    if not a.shape:
        a = reshape(a, (1,))
    axis = canonical_axis("repeat", axis, len(a.shape))
    size: Any = a.shape[axis]
    if total_repeat_length is None and type(count) is Size:
        return sharded(_repeated(a, count, axis), out_sharding, "jnp.repeat")
    if total_repeat_length is None:
        counts = _known_counts(repeats)
        if counts.size == 1:
            return sharded(_repeated(a, int(counts.reshape(())), axis), out_sharding, "jnp.repeat")
        if counts.shape != (size,):
            raise ValueError(
                three_lines(
                    f"repeat of {a.aval} by {counts.shape} counts at {current_source()}",
                    f"repeat requires `repeats` parameter to have length {size}, got {counts.size}",
                    "give one count, or one per element",
                )
            )
        places = np.repeat(np.arange(size), counts).astype(np.int32)
        return sharded(take(a, asarray(places), axis), out_sharding, "jnp.repeat")
    counts_array = cast(asarray(repeats), np.dtype(np.int32))
    if counts_array.size == 1:
        counts_array = broadcast_in_dim(reshape(counts_array, ()), (size,), ())
    return sharded(
        take(a, _places(counts_array, total_repeat_length), axis, mode="clip"),
        out_sharding,
        "jnp.repeat",
    )


def _known_counts(repeats: Any) -> np.ndarray:
    if isinstance(repeats, Tracer) and repeats.concrete() is None:
        concrete_number("repeat", "repeats", repeats)
    return np.asarray(repeats.concrete() if isinstance(repeats, Tracer) else repeats)


def _repeated(a: Any, count: Dim, axis: int) -> Any:
    shape = a.shape
    target = (*shape[: axis + 1], count, *shape[axis + 1 :])
    spread = broadcast_in_dim(a, target, [d for d in range(len(target)) if d != axis + 1])
    return reshape(spread, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


def _places(counts: Any, total: int) -> Any:
    """Return, for each of `total` elements of the result, which element it repeats."""
    ends = cumsum(counts)
    return searchsorted(ends, asarray(np.arange(total, dtype=np.int32)), side="right")
