"""Functions of `kiln.lax` that join and split arrays, composed of other operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.ops.indexing.static_slicing import concatenate, dims, index_in_dim
from kiln.ops.shape import broadcast_in_dim, canonical_axis, expand_dims, reshape


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeat an array along each of its axes.

    Raises: TypeError unless there is one number of repetitions per axis.
    Example:
        >>> lax.tile(jnp.array([[1, 2]]), (2, 2))
        Array([[1, 2, 1, 2],
               [1, 2, 1, 2]], dtype=int32)
    """
    shape, counts = aval_of(operand).shape, dims(reps)
    if len(counts) != len(shape):
        raise TypeError(
            three_lines(
                f"tile: operand {aval_of(operand)}, reps {tuple(reps)} at {current_source()}",
                f"reps length must be equal to the ndim of x, got len(reps)={len(counts)} and "
                f"x.ndim={len(shape)}.",
                "give one number for each axis; kiln.numpy.tile adds axes",
            )
        )
    pairs = [size for pair in zip(counts, shape, strict=True) for size in pair]
    stretched = broadcast_in_dim(operand, pairs, range(1, len(pairs), 2))
    return reshape(stretched, [n * size for n, size in zip(counts, shape, strict=True)])


def stack(operands: Sequence[Any], axis: int = 0) -> Array:
    """Join arrays of one type along a new axis.

    Raises: IndexError for no arrays, TypeError for several dtypes, ValueError for several shapes.
    Example:
        >>> lax.stack([jnp.array([1, 2]), jnp.array([3, 4])])
        Array([[1, 2],
               [3, 4]], dtype=int32)
    """
    avals = [aval_of(x) for x in operands]
    if not avals:
        raise IndexError(
            three_lines(f"stack([]) at {current_source()}", "no arrays to stack", "pass some")
        )
    asked = f"stack of {', '.join(map(str, avals))} at {current_source()}"
    if len({a.dtype for a in avals}) > 1:
        raise TypeError(
            three_lines(
                asked,
                "lax.stack requires arguments to have the same dtypes, got "
                f"{', '.join(dtypes.long_name(a.dtype) for a in avals)}.",
                "convert them: x.astype(...); kiln.numpy.stack promotes",
            )
        )
    if len({a.shape for a in avals}) > 1:
        raise ValueError(
            three_lines(
                asked,
                "All input arrays must have the same shape. Got "
                f"{', '.join(str(tuple(a.shape)) for a in avals)}.",
                "broadcast the arrays to one shape",
            )
        )
    place = canonical_axis("stack", axis, avals[0].ndim + 1)
    return concatenate([expand_dims(x, (place,)) for x in operands], place)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices along an axis, without it.

    Example:
        >>> lax.unstack(jnp.array([[1, 2], [3, 4]]))
        (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    shape = aval_of(x).shape
    place = canonical_axis("unstack", axis, len(shape))
    return tuple(index_in_dim(x, i, place, keepdims=False) for i in range(shape[place]))


def broadcast_like(arr: ArrayLike, like_arr: Any) -> Array:
    """Broadcast an array to the shape of another, aligning trailing axes.

    Shapes: `arr` of any shape that broadcasts to that of `like_arr` -> that of `like_arr`.
    Example:
        >>> lax.broadcast_like(jnp.array([1, 2]), jnp.zeros((3, 2))).shape
        (3, 2)
    """
    shape, wanted = aval_of(arr).shape, aval_of(like_arr).shape
    return broadcast_in_dim(arr, wanted, range(len(wanted) - len(shape), len(wanted)))
