"""Rearranging axes: reshape, transpose, broadcast."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, Axes, ShapeLike
from kiln.core.arrays.array import ConcreteArray
from kiln.core.trace import Tracer, aval_of, is_typed
from kiln.execution.eager_plans import eager
from kiln.ir.sizes.decisions import divides, is_surely
from kiln.ir.sizes.size import Dim, Size, equal, product
from kiln.numpy import promotion
from kiln.numpy.creation.arrays import canonical_shape
from kiln.numpy.promotion import lifted, one, operands, shape_of
from kiln.ops import shape as shape_ops
from kiln.ops.out_sharding import sharded
from kiln.ops.shape import canonical_axis, move_axis
from kiln.ops.sharding import auto


def canonical_axes(name: str, axes: Any, ndim: int) -> tuple[int, ...]:
    """Return distinct non-negative axes of an int or a sequence.

    Raises: ValueError if one is out of bounds or named twice.
    """
    found = tuple([canonical_axis(name, index_of(name, axis), ndim) for axis in listed(axes)])
    if len(set(found)) != len(found):
        raise ValueError(
            three_lines(
                f"{name}: axes {axes} of an array with {ndim} dimensions at {current_source()}",
                f"repeated axis: there is a duplicate value in 'axis': {axes}",
                "name each axis once",
            )
        )
    return found


def listed(given: Any) -> Sequence[Any]:
    """Return one number or several as a sequence, from whatever can be iterated."""
    if isinstance(given, (tuple, list, range)):
        return given
    # Kiln's arrays are not axes; iterating over a traced one would fail with another error.
    is_number = isinstance(given, np.ndarray) and given.ndim == 0
    kind = type(given)
    # Python iterates over whatever has items; NumPy asks for a length, too.
    has_items = hasattr(kind, "__len__") and hasattr(kind, "__getitem__")
    if (isinstance(given, Iterable) or has_items) and not is_number and not is_typed(given):
        return tuple(given)
    return (given,)


def index_of(name: str, axis: Any) -> int:
    """Return an axis as a Python int.

    Raises: TypeError if it is not an integer.
    """
    try:
        return operator.index(axis)
    except TypeError:
        if isinstance(axis, Tracer):
            raise
        raise TypeError(
            three_lines(
                f"{name}: axis {axis!r} at {current_source()}",
                f"'{type(axis).__name__}' object cannot be interpreted as an integer",
                "name axes by ints",
            )
        ) from None


@eager
def reshape(
    a: ArrayLike,
    shape: ShapeLike,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """Return the elements in another shape; one size may be -1, and is then inferred.

    `order` "C" reads and writes the last axis fastest, "F" the first. `copy` has no effect: arrays
    do not change.

    Raises: TypeError if the number of elements differs.
    Example:
        >>> jnp.reshape(jnp.arange(6), (2, -1))
        Array([[0, 1, 2],
               [3, 4, 5]], dtype=int32)
    """
    a = one("reshape", a)
    target = _resolved(a, shape)
    if out_sharding is not None:
        a = auto(a)
    if order == "C":
        return sharded(shape_ops.reshape(a, target), out_sharding, "jnp.reshape")
    if order == "F":
        rank = len(shape_of(a))
        flipped = shape_ops.transpose(a, range(rank - 1, -1, -1))
        out = shape_ops.reshape(flipped, target[::-1])
        return sharded(
            shape_ops.transpose(out, range(len(target) - 1, -1, -1)), out_sharding, "jnp.reshape"
        )
    asked = f"reshape(..., order={order!r}) at {current_source()}"
    if order == "A":
        raise NotImplementedError(f"{asked}\narrays have no memory order\nuse 'C'")
    raise ValueError(f"{asked}\nUnexpected value for 'order'\nuse 'C' or 'F'")


def _resolved(a: Any, shape: Any) -> tuple[Dim, ...]:
    given = listed(shape)
    if is_typed(shape) and len(shape.shape) == 1:
        given = tuple(shape)
    sizes: list[Any] = []
    for dim in given:
        if type(dim) is not Size and type(dim) is not int:
            (dim,) = canonical_shape("reshape", (dim,)) if not _is_minus_one(dim) else (-1,)
        sizes.append(dim)
    own = aval_of(a).shape
    unknown = [i for i, dim in enumerate(sizes) if type(dim) is int and dim == -1]
    fits = len(unknown) <= 1
    if fits and unknown:
        rest = product(dim for i, dim in enumerate(sizes) if i != unknown[0])
        total = product(own)
        fits = not (type(rest) is int and rest == 0)
        if fits:
            fits = divides(rest, total)
            sizes[unknown[0]] = total // rest if fits else 0
    elif fits:
        fits = not any(type(dim) is int and dim < 0 for dim in sizes)
        fits = fits and equal(product(sizes), product(own))
    if not fits:
        signed = any(type(dim) is int and dim < 0 for dim in given)
        total_asked = "" if signed else f" (size {product(given)})"
        raise TypeError(
            three_lines(
                f"reshape: array {aval_of(a)} to shape {shape} at {current_source()}",
                f"cannot reshape array of shape {tuple(own)} (size {product(own)}) into shape "
                f"{tuple(given)}{total_asked}",
                f"use a shape with {product(own)} elements, in which one size may be -1",
            )
        )
    return tuple(sizes)


def _is_minus_one(dim: Any) -> bool:
    return isinstance(dim, (np.integer, ConcreteArray)) and bool(dim == -1)


@eager
def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """Return the elements as a vector, in row-major order unless `order` is "F".

    Example:
        >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]))
        Array([1, 2, 3, 4], dtype=int32)
        >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]), order="F")
        Array([1, 3, 2, 4], dtype=int32)
    """
    a = one("ravel", a)
    if out_sharding is not None:
        a = auto(a)
    return sharded(
        reshape(a, (product(shape_of(a)),), order if order != "K" else "C"),
        out_sharding,
        "jnp.ravel",
    )


@eager
def transpose(a: ArrayLike, axes: Axes = None) -> Array:
    """Permute the axes; without `axes`, reverse them.

    Example:
        >>> jnp.transpose(jnp.array([[1, 2], [3, 4]]))
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    a = one("transpose", a)
    rank = len(shape_of(a))
    if axes is None:
        return shape_ops.transpose(a, range(rank - 1, -1, -1))
    given = listed(axes)
    if len(given) != rank:
        raise ValueError(
            three_lines(
                f"transpose: array {aval_of(a)}, axes {axes} at {current_source()}",
                "axes don't match array",
                f"name each of the {rank} axes once",
            )
        )
    return shape_ops.transpose(a, canonical_axes("transpose", given, rank))


def permute_dims(a: ArrayLike, /, axes: Any) -> Array:
    """Permute the axes.

    Example:
        >>> jnp.permute_dims(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
        (4, 2, 3)
    """
    return transpose(a, axes)


@eager
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Exchange two axes.

    Example:
        >>> jnp.swapaxes(jnp.ones((2, 3, 4)), 0, 2).shape
        (4, 3, 2)
    """
    a = one("swapaxes", a)
    rank = len(shape_of(a))
    i, j = (canonical_axis("swapaxes", index_of("swapaxes", x), rank) for x in (axis1, axis2))
    perm = list(range(rank))
    perm[i], perm[j] = perm[j], perm[i]
    return shape_ops.transpose(a, perm)


@eager
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Move axes to other positions; the rest keep their order.

    `source` and `destination` are axes, or sequences of them.

    Example:
        >>> jnp.moveaxis(jnp.ones((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    a = one("moveaxis", a)
    rank = len(shape_of(a))
    sources = canonical_axes("moveaxis", source, rank)
    targets = canonical_axes("moveaxis", destination, rank)
    if len(sources) != len(targets):
        raise ValueError(
            three_lines(
                f"moveaxis: from {source} to {destination} at {current_source()}",
                f"Inconsistent number of elements: {len(sources)} vs {len(targets)}",
                "name as many destinations as sources",
            )
        )
    perm = [i for i in range(rank) if i not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        perm.insert(target, axis)
    return shape_ops.transpose(a, perm)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Move an axis before the one at `start`.

    Example:
        >>> jnp.rollaxis(jnp.ones((2, 3, 4)), 2).shape
        (4, 2, 3)
    """
    a = one("rollaxis", a)
    rank = len(shape_of(a))
    axis = canonical_axis("rollaxis", axis, rank)
    if not -rank <= start <= rank:
        raise ValueError(
            f"rollaxis(start={start}) at {current_source()}\n"
            f"{start=} must satisfy {-rank}<=start<={rank}\nuse a start in that range"
        )
    start = start + rank if start < 0 else start
    return move_axis(a, axis, start - 1 if start > axis else start)


@eager
def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """Insert axes of size 1 at the positions `axis` of the result.

    Example:
        >>> jnp.expand_dims(jnp.arange(3), 0).shape
        (1, 3)
    """
    a = one("expand_dims", a)
    given = listed(axis)
    axes = canonical_axes("expand_dims", given, len(shape_of(a)) + len(given))
    return shape_ops.expand_dims(a, axes)


@eager
def squeeze(a: ArrayLike, axis: Axes = None) -> Array:
    """Drop axes of size 1: the given ones, or all.

    Example:
        >>> jnp.squeeze(jnp.ones((1, 3, 1))).shape
        (3,)
    """
    a = one("squeeze", a)
    shape = shape_of(a)
    if axis is None:
        return shape_ops.squeeze(a, [i for i, dim in enumerate(shape) if is_surely(dim, 1)])
    return shape_ops.squeeze(a, canonical_axes("squeeze", axis, len(shape)))


@eager
def broadcast_to(array: ArrayLike, shape: ShapeLike, *, out_sharding: Any = None) -> Array:
    """Repeat an array along new leading axes, and along axes of size 1, up to `shape`.

    Raises: ValueError if the shapes are incompatible.
    Example:
        >>> jnp.broadcast_to(jnp.arange(2), (2, 2))
        Array([[0, 1],
               [0, 1]], dtype=int32)
    """
    array = one("broadcast_to", array)
    target = canonical_shape("broadcast_to", shape)
    own = shape_of(array)
    fits = len(own) <= len(target) and all(
        dim in (1, wanted) for dim, wanted in zip(own[::-1], target[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            three_lines(
                f"broadcast_to: array {aval_of(array)} to shape {target} at {current_source()}",
                f"Incompatible shapes for broadcasting: {tuple(own)} and requested shape "
                f"{tuple(target)}",
                "axes must have size 1 or the requested size, starting from the last one",
            )
        )
    if out_sharding is not None:
        array = auto(array)
    return sharded(promotion.broadcast_to(array, target), out_sharding, "jnp.broadcast_to")


@eager
def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """Broadcast arrays against each other.

    The results are arrays of their own, not views that share memory.

    Example:
        >>> jnp.broadcast_arrays(jnp.array([1, 2]), 0)
        [Array([1, 2], dtype=int32), Array([0, 0], dtype=int32, weak_type=True)]
    """
    return [lifted(x) for x in _all_broadcast(*operands("broadcast_arrays", *args))]


def _all_broadcast(*args: Any) -> Sequence[Any]:
    try:
        return promotion.full_shapes("broadcast_arrays", *args)
    except TypeError as error:
        raise ValueError(str(error).replace("got incompatible", "Incompatible")) from None


def broadcast_shapes(*shapes: ShapeLike) -> tuple[Dim, ...]:
    """Return the shape that shapes broadcast to.

    Raises: ValueError if the shapes are incompatible.
    Example:
        >>> jnp.broadcast_shapes((3, 1), (4,))
        (3, 4)
    """
    found = [canonical_shape("broadcast_shapes", shape) for shape in shapes]
    try:
        return promotion.broadcast_shapes("broadcast_shapes", *found)
    except TypeError as error:
        raise ValueError(str(error).replace("got incompatible", "Incompatible")) from None


@overload
def atleast_1d(array: ArrayLike, /) -> Array: ...


@overload
def atleast_1d(*arys: ArrayLike) -> Any: ...


def atleast_1d(*arys: ArrayLike) -> Any:
    """Return arrays with at least one axis.

    Example:
        >>> jnp.atleast_1d(3)
        Array([3], dtype=int32, weak_type=True)
    """
    return _each("atleast_1d", arys, lambda x: _with_axes(x, 1, (0,)))


@overload
def atleast_2d(array: ArrayLike, /) -> Array: ...


@overload
def atleast_2d(*arys: ArrayLike) -> Any: ...


def atleast_2d(*arys: ArrayLike) -> Any:
    """Return arrays with at least two axes.

    Example:
        >>> jnp.atleast_2d(jnp.array([1, 2])).shape
        (1, 2)
    """
    return _each(
        "atleast_2d", arys, lambda x: _with_axes(x, 2, (0, 1) if not shape_of(x) else (0,))
    )


@overload
def atleast_3d(array: ArrayLike, /) -> Array: ...


@overload
def atleast_3d(*arys: ArrayLike) -> Any: ...


def atleast_3d(*arys: ArrayLike) -> Any:
    """Return arrays with at least three axes.

    Example:
        >>> jnp.atleast_3d(jnp.array([1, 2])).shape
        (1, 2, 1)
    """
    places = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
    return _each("atleast_3d", arys, lambda x: _with_axes(x, 3, places.get(len(shape_of(x)), ())))


def _with_axes(x: Any, rank: int, places: Sequence[int]) -> Any:
    return x if len(shape_of(x)) >= rank else shape_ops.expand_dims(x, places)


def _each(name: str, arys: Sequence[Any], change: Any) -> Any:
    found = [change(one(name, x)) for x in arys]
    return found[0] if len(found) == 1 else found


def size(a: ArrayLike | Sequence[Any], axis: Axes = None) -> Dim:
    """Return the number of elements along all axes or some of them.

    Example:
        >>> jnp.size(jnp.ones((2, 3))), jnp.size(jnp.ones((2, 3)), axis=0)
        (6, 2)
    """
    found = shape(a)
    if axis is None:
        return product(found)
    return product(found[i] for i in canonical_axes("size", axis, len(found)))


def shape(a: ArrayLike | Sequence[Any]) -> tuple[Dim, ...]:
    """Return the shape of an array, or of anything NumPy can convert to one.

    Example:
        >>> jnp.shape(jnp.ones((2, 3)))
        (2, 3)
    """
    return tuple(np.shape(a.__jax_array__() if hasattr(a, "__jax_array__") else a))


def ndim(a: ArrayLike | Sequence[Any]) -> int:
    """Return the number of axes.

    Example:
        >>> jnp.ndim(jnp.ones((2, 3)))
        2
    """
    return len(shape(a))
