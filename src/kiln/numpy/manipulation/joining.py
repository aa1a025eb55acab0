"""Joining and splitting: concatenate, stack, block; split; append, insert, delete, resize."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, Arrays, Axes, DTypeLike
from kiln.core.trace import Tracer, is_typed
from kiln.execution.eager_plans import eager
from kiln.numpy.creation.arrays import asarray, canonical_shape, cast
from kiln.numpy.creation.filling import full
from kiln.numpy.elements.arithmetic import refuse_out
from kiln.numpy.elements.logic import choose_by
from kiln.numpy.indexing.iteration import unpacked
from kiln.numpy.indexing.taking import take
from kiln.numpy.promotion import broadcast_to, one, operands, promote_dtypes
from kiln.numpy.shapes import atleast_1d, atleast_2d, atleast_3d, moveaxis, ravel
from kiln.numpy.sorting import sort
from kiln.ops.counting import broadcasted_iota, iota
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.indexing import static_slicing
from kiln.ops.indexing.slicing import dynamic_update_slice, from_end
from kiln.ops.indexing.static_slicing import slice_in_dim
from kiln.ops.shape import canonical_axis, expand_dims, reduce_sum, reshape


def array_list(name: str, arrays: Any) -> list[Any]:
    """Return the arrays of a sequence, or of an array's first axis."""
    if is_typed(arrays) or isinstance(arrays, np.ndarray):
        return list(unpacked(one(name, arrays)))
    if isinstance(arrays, (str, bytes)) or not isinstance(arrays, (Sequence,)):
        arrays = _listed(name, arrays)
    return [one(name, x) for x in operands(name, *arrays)]


def _listed(name: str, arrays: Any) -> list[Any]:
    try:
        return list(arrays)
    except TypeError:
        raise TypeError(
            three_lines(
                f"{name}({arrays!r:.60}) at {current_source()}",
                f"{name} requires a sequence of arrays, got {type(arrays)}",
                "pass a list of arrays",
            )
        ) from None


def _promoted(name: str, arrays: Sequence[Any], dtype: Any) -> list[Any]:
    if dtype is not None:
        wanted = dtypes.check_user_dtype(dtype, name)
        return [cast(x, wanted) for x in arrays]
    return list(promote_dtypes(*arrays))


@eager
def concatenate(arrays: Arrays, axis: Any = 0, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along an existing axis; with axis=None, join the flattened arrays.

    Example:
        >>> jnp.concatenate([jnp.arange(2), jnp.arange(3)])
        Array([0, 1, 0, 1, 2], dtype=int32)
        >>> jnp.concatenate([jnp.ones((2, 1)), jnp.zeros((2, 2))], axis=1)
        Array([[1., 0., 0.],
               [1., 0., 0.]], dtype=float32)
    """
    found = array_list("concatenate", arrays)
    if not found:
        raise ValueError(
            three_lines(
                f"concatenate([]) at {current_source()}",
                "Need at least one array to concatenate.",
                "pass some arrays",
            )
        )
    if axis is None:
        found, axis = [ravel(x) for x in found], 0
    ranks = {len(x.shape) for x in found}
    if len(ranks) > 1:
        raise TypeError(
            three_lines(
                f"concatenate of {', '.join(str(x.aval) for x in found)} at {current_source()}",
                "Cannot concatenate arrays with different numbers of dimensions: got "
                f"{', '.join(str(tuple(x.shape)) for x in found)}.",
                "reshape the arrays to one rank",
            )
        )
    if ranks == {0}:
        raise ValueError(
            three_lines(
                f"concatenate of scalars at {current_source()}",
                "Zero-dimensional arrays cannot be concatenated.",
                "use stack",
            )
        )
    axis = canonical_axis("concatenate", axis, ranks.pop())
    return static_slicing.concatenate(_promoted("concatenate", found, dtype), axis)


@eager
def concat(arrays: Arrays, /, *, axis: Any = 0) -> Array:
    """Join arrays along an existing axis.

    Example:
        >>> jnp.concat([jnp.array([1, 2]), jnp.array([3])])
        Array([1, 2, 3], dtype=int32)
    """
    return concatenate(arrays, axis)


@eager
def stack(arrays: Arrays, axis: int = 0, out: None = None, dtype: DTypeLike | None = None) -> Array:
    """Join arrays of the same shape along a new axis.

    Example:
        >>> jnp.stack([jnp.zeros(2), jnp.ones(2)])
        Array([[0., 0.],
               [1., 1.]], dtype=float32)
        >>> jnp.stack([jnp.zeros(2), jnp.ones(2)], axis=1)
        Array([[0., 1.],
               [0., 1.]], dtype=float32)
    """
    refuse_out("stack", out)
    found = array_list("stack", arrays)
    if not found:
        raise ValueError(
            three_lines(
                f"stack([]) at {current_source()}",
                "Need at least one array to stack.",
                "pass some arrays",
            )
        )
    if len({tuple(x.shape) for x in found}) > 1:
        raise ValueError(
            three_lines(
                f"stack of {', '.join(str(x.aval) for x in found)} at {current_source()}",
                "All input arrays must have the same shape.",
                "broadcast the arrays to one shape",
            )
        )
    axis = canonical_axis("stack", axis, len(found[0].shape) + 1)
    found = [expand_dims(x, (axis,)) for x in _promoted("stack", found, dtype)]
    return static_slicing.concatenate(found, axis)


@eager
def vstack(tup: Arrays, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the first axis; vectors count as rows.

    Example:
        >>> jnp.vstack([jnp.array([1, 2]), jnp.array([3, 4])])
        Array([[1, 2],
               [3, 4]], dtype=int32)
    """
    return concatenate(_raised("vstack", tup, atleast_2d), 0, dtype)


@eager
def hstack(tup: Arrays, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the second axis; vectors along their only axis.

    Example:
        >>> jnp.hstack([jnp.array([1, 2]), jnp.array([3])])
        Array([1, 2, 3], dtype=int32)
    """
    found = _raised("hstack", tup, atleast_1d)
    return concatenate(found, 0 if found and len(found[0].shape) == 1 else 1, dtype)


@eager
def dstack(tup: Arrays, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the third axis.

    Example:
        >>> jnp.dstack([jnp.array([1, 2]), jnp.array([3, 4])])
        Array([[[1, 3],
                [2, 4]]], dtype=int32)
    """
    return concatenate(_raised("dstack", tup, atleast_3d), 2, dtype)


def _raised(name: str, tup: Any, at_least: Any) -> list[Any]:
    return [at_least(x) for x in array_list(name, tup)]


@eager
def column_stack(tup: Arrays) -> Array:
    """Join vectors, as columns, and matrices along the second axis.

    Example:
        >>> jnp.column_stack([jnp.array([1, 2]), jnp.array([3, 4])])
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    found = array_list("column_stack", tup)
    return concatenate(
        [expand_dims(atleast_1d(x), (1,)) if len(x.shape) < 2 else x for x in found], 1
    )


def block(arrays: Any) -> Array:
    """Join nested lists of arrays: the innermost along the last axis, and so on.

    Example:
        >>> a, zero = jnp.ones((1, 2), int), jnp.zeros((1, 1), int)
        >>> jnp.block([[a, zero], [zero, a]])
        Array([[1, 1, 0],
               [0, 1, 1]], dtype=int32)
    """
    out, depth = _block(arrays)
    return atleast_1d(out) if depth else asarray(out)


def _block(arrays: Any) -> tuple[Any, int]:
    if isinstance(arrays, tuple):
        raise TypeError(
            three_lines(
                f"block(...) at {current_source()}",
                "jax.numpy.block only supports lists, not tuples",
                "write the blocks as lists",
            )
        )
    if not isinstance(arrays, list):
        return one("block", arrays), 0
    if not arrays:
        raise ValueError(f"block at {current_source()}\nempty list\nleave the empty list out")
    parts = [_block(x) for x in arrays]
    depth = parts[0][1] + 1
    rank = max([len(x.shape) for x, _ in parts] + [depth])
    found = [expand_dims(x, range(rank - len(x.shape))) for x, _ in parts]
    return concatenate(found, -depth), depth


@eager
def append(arr: ArrayLike, values: ArrayLike, axis: Axes = None) -> Array:
    """Append values to the end of an array.

    Each call copies: to collect the results of a loop, use `lax.scan`, or a list and `stack`.

    Example:
        >>> jnp.append(jnp.array([1, 2]), jnp.array([3]))
        Array([1, 2, 3], dtype=int32)
    """
    arr, values = operands("append", arr, values)
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


def resize(a: ArrayLike, new_shape: Any) -> Array:
    """Repeat or drop elements to fill a new shape.

    Example:
        >>> jnp.resize(jnp.array([1, 2, 3]), (2, 4))
        Array([[1, 2, 3, 1],
               [2, 3, 1, 2]], dtype=int32)
    """
    flat = ravel(one("resize", a))
    shape = canonical_shape("resize", new_shape)
    wanted = math.prod(shape)
    have = flat.shape[0]
    if have == 0:
        return full(shape, 0, flat.dtype)
    repeats = -(-wanted // have)
    if repeats != 1:
        flat = static_slicing.concatenate([flat] * max(repeats, 1), 0)
    return reshape(slice_in_dim(flat, 0, wanted), shape)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axes = None) -> Array:
    """Drop zeros at the ends of axes, all by default; under a trace their number is unknown.

    Raises: ValueError for letters in `trim` other than f (front) and b (back).
    Example:
        >>> jnp.trim_zeros(jnp.array([0, 0, 1, 0, 2, 0]))
        Array([1, 0, 2], dtype=int32)
    """
    if set(trim.lower()) - {"f", "b"}:
        raise ValueError(
            three_lines(
                f"trim_zeros(..., trim={trim!r}) at {current_source()}",
                "trim may hold the letters f (front) and b (back)",
                "use 'f', 'b' or 'fb'",
            )
        )
    x = one("trim_zeros", filt)
    used = np.argwhere(np.asarray(x))
    axes = range(x.ndim) if axis is None else [a % x.ndim for a in np.atleast_1d(axis)]
    index = [slice(None)] * x.ndim
    for a in axes:
        start, stop = (int(used[:, a].min()), int(used[:, a].max()) + 1) if len(used) else (0, 0)
        index[a] = slice(
            start if "f" in trim.lower() else 0,
            stop if "b" in trim.lower() or not len(used) else x.shape[a],
        )
    return x[tuple(index)]


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: Axes = None) -> Array:
    """Insert values before given indices, which must be known while tracing unless it is one.

    `obj` is an index, a slice, or an array of indices.

    Example:
        >>> jnp.insert(jnp.array([10, 11, 12]), 1, 99)
        Array([10, 99, 11, 12], dtype=int32)
    """
    arr = one("insert", arr)
    values = cast(one("insert", values), arr.dtype)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonical_axis("insert", axis, len(arr.shape))
    size = arr.shape[axis]
    if isinstance(obj, Tracer) and obj.concrete() is None and obj.ndim == 0:
        return _inserted_at(arr, obj, values, axis)
    if isinstance(obj, slice):
        places = np.arange(size)[obj]
    else:
        places = np.asarray(obj)
    scalar = places.ndim == 0
    places = np.atleast_1d(places)
    if places.size and (places.min() < -size or places.max() > size):
        raise IndexError(
            f"insert at {obj} into {arr.aval} at {current_source()}\n"
            f"index out of bounds\nuse 0 to {size}"
        )
    places = np.where(places < 0, places + size, places)
    if scalar and values.shape:
        # One index and several slices: all are inserted there, along their first axis.
        values = moveaxis(values, 0, axis) if len(values.shape) == len(arr.shape) else values
    others = tuple(d for i, d in enumerate(arr.shape) if i != axis)
    rank = len(arr.shape)
    count = places.size
    if scalar and len(values.shape) == rank and rank > 0:
        count = values.shape[axis]
        places = np.repeat(places, count)
    elif scalar and len(values.shape) < rank and values.shape:
        values = expand_dims(values, (axis,)) if len(values.shape) == rank - 1 else values
    target = (*others[:axis], count, *others[axis:])
    values = broadcast_to(values, target)
    order = np.argsort(places, kind="stable")
    parts, last = [], 0
    for i in order:
        parts.append(slice_in_dim(arr, last, int(places[i]), 1, axis))
        parts.append(slice_in_dim(values, int(i), int(i) + 1, 1, axis))
        last = int(places[i])
    parts.append(slice_in_dim(arr, last, size, 1, axis))
    return static_slicing.concatenate([p for p in parts if p.shape[axis] != 0] or [arr], axis)


def _inserted_at(arr: Any, place: Any, values: Any, axis: int) -> Any:
    """Insert values before one index, which is traced; out of bounds it is clamped."""
    rank, size = arr.ndim, arr.shape[axis]
    if values.ndim == rank:
        values = moveaxis(values, 0, axis)
    elif values.ndim:
        values = expand_dims(values, (axis,)) if values.ndim == rank - 1 else values
    count = values.shape[axis] if values.ndim == rank else 1
    others = arr.shape[:axis], arr.shape[axis + 1 :]
    values = broadcast_to(values, (*others[0], count, *others[1]))
    place = choose_by(place < 0, place + size, place).clip(0, size)
    room = full((*others[0], count, *others[1]), 0, arr.dtype)
    starts = [place if d == axis else 0 for d in range(rank)]
    positions = broadcasted_iota(place.dtype, (*others[0], size + count, *others[1]), axis)
    behind = static_slicing.concatenate([room, arr], axis)
    before = static_slicing.concatenate([arr, room], axis)
    return dynamic_update_slice(choose_by(positions < place, before, behind), values, starts)


def delete(
    arr: ArrayLike, obj: Any, axis: Axes = None, *, assume_unique_indices: bool = False
) -> Array:
    """Drop elements at given indices, which must be known while tracing.

    A mask that is traced does not say how many elements remain: use `where` in `jit`. `obj` is an
    index, a slice, or an array of indices.

    Example:
        >>> jnp.delete(jnp.array([10, 11, 12, 13]), jnp.array([0, 2]))
        Array([11, 13], dtype=int32)
    """
    arr = one("delete", arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonical_axis("delete", axis, len(arr.shape))
    size = arr.shape[axis]
    if assume_unique_indices and is_typed(obj):
        return _without_distinct(arr, obj, axis)
    if not isinstance(obj, slice):
        obj = np.asarray(obj)
        if obj.size and obj.dtype.kind != "b" and (obj.min() < -size or obj.max() >= size):
            raise IndexError(
                f"delete at {obj} from {arr.aval} at {current_source()}\n"
                f"index out of bounds\nuse 0 to {size - 1}"
            )
    remaining = np.ones(size, bool)
    remaining[obj] = False
    return kept_where(arr, remaining, axis)


def _without_distinct(arr: Any, places: Any, axis: int) -> Any:
    """Drop the elements of an axis at distinct positions, which may be traced."""
    if not dtypes.issubdtype(places.aval.dtype, np.integer):
        raise ValueError(
            three_lines(
                f"delete of {arr.aval} at {places.aval}, assume_unique_indices=True, "
                f"at {current_source()}",
                "obj must be integers where it is assumed to be unique",
                "convert it first: obj.astype('int32')",
            )
        )
    size = arr.shape[axis]
    places = sort(from_end(ravel(places), size))
    left = iota(np.dtype(np.int32), size - places.shape[0])
    # As many dropped elements precede the i-th kept one as there are j with places[j] - j <= i.
    shift = convert_element_type(places, left.dtype) - iota(left.dtype, places.shape[0])
    skipped = reduce_sum(
        convert_element_type(expand_dims(shift, (0,)) <= expand_dims(left, (1,)), left.dtype), (1,)
    )
    return take(arr, left + skipped, axis=axis)


def kept_where(arr: Any, remaining: np.ndarray, axis: int) -> Any:
    """Return the slices of an axis where a known mask holds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], remaining.astype(int), [0]])))
    parts = [
        slice_in_dim(arr, int(start), int(stop), 1, axis)
        for start, stop in zip(edges[::2], edges[1::2], strict=True)
    ]
    if not parts:
        return slice_in_dim(arr, 0, 0, 1, axis)
    return parts[0] if len(parts) == 1 else static_slicing.concatenate(parts, axis)
