"""Functions of `kiln.lax` about shapes that are not single operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import Dim, as_dim, product
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.out_sharding import sharded
from kiln.ops.shape import broadcast_in_dim, canonical_axis, reshape
from kiln.ops.sharding import put, put_like


def full(
    shape: Sequence[Dim],
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    sharding: Any = None,
) -> Array:
    """Return an array of `shape` filled with a scalar; its dtype is that of the scalar.

    A `sharding` says where it is put.

    Raises: TypeError if the fill value is not a scalar.
    Example:
        >>> lax.full((2,), 7), lax.full((2,), 7, jnp.float32)
        (Array([7, 7], dtype=int32, weak_type=True), Array([7., 7.], dtype=float32))
    """
    aval = aval_of(fill_value)
    if aval.shape:
        raise TypeError(
            three_lines(
                f"full: shape {tuple(shape)}, fill_value {aval} at {current_source()}",
                "full must be called with scalar fill_value",
                "use broadcast_in_dim for arrays",
            )
        )
    weak = dtype is None and aval.weak_type
    wanted = aval.dtype if dtype is None else dtypes.check_user_dtype(dtype, "full")
    value = convert_element_type(fill_value, wanted, weak_type=weak)
    found = broadcast_in_dim(value, tuple(map(as_dim, shape)), ())
    return found if sharding is None else put(found, sharding)


def full_like(
    x: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: Sequence[Dim] | None = None,
    sharding: Any = None,
) -> Array:
    """Return an array filled with a scalar, by default with the shape and dtype of `x`.

    It is put where `sharding` says, or else where `x` is committed to, if it is.

    Example:
        >>> lax.full_like(jnp.array([1.0, 2.0]), 7)
        Array([7., 7.], dtype=float32)
    """
    aval = aval_of(x)
    sizes = aval.shape if shape is None else shape
    wanted = aval.dtype if dtype is None else dtype
    filled = full(sizes, fill_value, wanted)
    if dtype is None:
        filled = convert_element_type(filled, aval.dtype, aval.weak_type)
    return put_like(filled, x) if sharding is None else put(filled, sharding)


def broadcast_shapes(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the shape that shapes broadcast to.

    Raises: ValueError if they do not.
    Example:
        >>> lax.broadcast_shapes((3, 1), (1, 4))
        (3, 4)
    """
    rank = max((len(s) for s in shapes), default=0)
    out: list[Dim] = []
    for sizes in zip(*[(*([1] * (rank - len(s))), *s) for s in shapes], strict=True):
        wide = [s for s in sizes if s != 1]
        if any(s != wide[0] for s in wide):
            raise ValueError(
                three_lines(
                    f"broadcast_shapes{tuple(map(tuple, shapes))} at {current_source()}",
                    f"Incompatible shapes for broadcasting: {tuple(map(tuple, shapes))}",
                    "make the sizes of each axis equal, or 1",
                )
            )
        out.append(wide[0] if wide else 1)
    return tuple(out)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Add leading axes of size 1 up to a rank; an array of a higher rank is returned unchanged.

    Example:
        >>> lax.broadcast_to_rank(jnp.array([1, 2]), 3).shape
        (1, 1, 2)
    """
    shape = aval_of(x).shape
    missing = max(0, rank - len(shape))
    rank = missing + len(shape)
    return broadcast_in_dim(x, (*[1] * missing, *shape), range(missing, rank))


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merge the axes from start up to but not including stop into one.

    Negative dimensions count from the end; without `stop_dimension` all that follow are merged.
    Raises: ValueError if `start_dimension` is out of bounds, or after `stop_dimension`.
    Example:
        >>> lax.collapse(jnp.ones((2, 3, 4)), 1).shape
        (2, 12)
    """
    shape = aval_of(operand).shape
    start = canonical_axis("collapse", start_dimension, len(shape))
    stop = (
        len(shape)
        if stop_dimension is None
        else int(np.clip(stop_dimension, -len(shape), len(shape)))
    )
    stop = stop + len(shape) if stop < 0 else stop
    if stop < start:
        raise ValueError(
            three_lines(
                f"collapse of {aval_of(operand)} from {start} to {stop} at {current_source()}",
                f"stop_dimension {stop} is before start_dimension {start}",
                "name the axes from first to one after last",
            )
        )
    return reshape(operand, (*shape[:start], product(shape[start:stop]), *shape[stop:]))


def empty(shape: Sequence[Dim], dtype: DTypeLike, *, out_sharding: Any = None) -> Array:
    """Return an array of the given type with unspecified values, which are zeros.

    `out_sharding` says how the result is sharded: a NamedSharding, or a PartitionSpec over the mesh
    in force.

    Example:
        >>> lax.empty((2,), jnp.float32)
        Array([0., 0.], dtype=float32)
    """
    return sharded(full(shape, 0, dtype), out_sharding, "empty")


def dtype(x: Any) -> Any:
    """Return the dtype of an array or a number.

    Example:
        >>> lax.dtype(1.0), lax.dtype(jnp.arange(2))
        (dtype('float32'), dtype('int32'))
    """
    return aval_of(x).dtype
