"""The same elements in another arrangement: reshape, transpose, flip, roll, broadcast."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array import ConcreteArray
from kiln.core.at_once import at_once
from kiln.core.trace import Tracer, aval_of
from kiln.ir.sizes import Dim, Size, divides, equal, product
from kiln.numpy import promotion
from kiln.numpy.creation import canonical_shape, cast
from kiln.numpy.promotion import lifted, operands, shape_of
from kiln.ops import elementwise
from kiln.ops import shape as shape_ops
from kiln.ops.shape import canonical_axis, move_axis, rev
from kiln.ops.slicing import dynamic_slice_in_dim
from kiln.ops.static_slicing import concatenate, slice_in_dim


def one(name: str, x: Any) -> Any:
    """Return the argument as an array.

    Raises: TypeError for lists and other things that are no arrays.
    """
    if hasattr(x, "aval"):
        return x
    return lifted(*operands(name, x))


def canonical_axes(name: str, axes: Any, ndim: int) -> tuple[int, ...]:
    """Return distinct non-negative axes of an int or a sequence.

    Raises: ValueError if one is out of bounds or named twice.
    """
    given = axes if isinstance(axes, (tuple, list, np.ndarray, range)) else (axes,)
    found = tuple([canonical_axis(name, index_of(name, axis), ndim) for axis in given])
    if len(set(found)) != len(found):
        raise ValueError(
            three_lines(
                f"{name}: axes {axes} of an array with {ndim} dimensions at {current_source()}",
                f"duplicate value in 'axis': {axes}",
                "name each axis once",
            )
        )
    return found


def index_of(name: str, axis: Any) -> int:
    """Return an axis as a Python int.

    Raises: TypeError for what is no integer.
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


@at_once
def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """Give the elements another shape; one size may be -1.

    Raises: TypeError if the number of elements differs.
    """
    a = one("reshape", a)
    target = _resolved(a, shape)
    if order == "C":
        return shape_ops.reshape(a, target)
    if order == "F":
        rank = len(shape_of(a))
        flipped = shape_ops.transpose(a, range(rank - 1, -1, -1))
        out = shape_ops.reshape(flipped, target[::-1])
        return shape_ops.transpose(out, range(len(target) - 1, -1, -1))
    asked = f"reshape(..., order={order!r}) at {current_source()}"
    if order == "A":
        raise NotImplementedError(f"{asked}\narrays have no memory order\nuse 'C'")
    raise ValueError(f"{asked}\nUnexpected value for 'order'\nuse 'C' or 'F'")


def _resolved(a: Any, shape: Any) -> tuple[Dim, ...]:
    given = shape if isinstance(shape, (tuple, list, np.ndarray)) else (shape,)
    if hasattr(shape, "aval") and len(shape.shape) == 1:
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
        raise TypeError(
            three_lines(
                f"reshape: array {aval_of(a)} to shape {shape} at {current_source()}",
                f"cannot reshape array of shape {tuple(own)} (size {product(own)}) into shape "
                f"{tuple(given)} (size {product(given)})",
                f"use a shape with {product(own)} elements, or one -1",
            )
        )
    return tuple(sizes)


def _is_minus_one(dim: Any) -> bool:
    return isinstance(dim, (np.integer, ConcreteArray)) and bool(dim == -1)


@at_once
def ravel(a: Any, order: str = "C") -> Any:
    """Return the elements as a vector."""
    a = one("ravel", a)
    return reshape(a, (product(shape_of(a)),), order if order != "K" else "C")


@at_once
def transpose(a: Any, axes: Any = None) -> Any:
    """Permute the axes; without `axes`, reverse them."""
    a = one("transpose", a)
    rank = len(shape_of(a))
    if axes is None:
        return shape_ops.transpose(a, range(rank - 1, -1, -1))
    given = axes if isinstance(axes, (tuple, list, np.ndarray, range)) else (axes,)
    if len(given) != rank:
        raise ValueError(
            three_lines(
                f"transpose: array {aval_of(a)}, axes {axes} at {current_source()}",
                "axes don't match array",
                f"name each of the {rank} axes once",
            )
        )
    return shape_ops.transpose(a, canonical_axes("transpose", given, rank))


def permute_dims(a: Any, /, axes: Any) -> Any:
    """Permute the axes."""
    return transpose(a, axes)


@at_once
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Exchange two axes."""
    a = one("swapaxes", a)
    rank = len(shape_of(a))
    i, j = (canonical_axis("swapaxes", index_of("swapaxes", x), rank) for x in (axis1, axis2))
    perm = list(range(rank))
    perm[i], perm[j] = perm[j], perm[i]
    return shape_ops.transpose(a, perm)


@at_once
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Move axes to other places; the rest keep their order."""
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


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """Move an axis before the one at `start`."""
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


@at_once
def expand_dims(a: Any, axis: Any) -> Any:
    """Insert axes of size 1 so that they stand at `axis` of the result."""
    a = one("expand_dims", a)
    given = axis if isinstance(axis, (tuple, list, np.ndarray)) else (axis,)
    axes = canonical_axes("expand_dims", given, len(shape_of(a)) + len(given))
    return shape_ops.expand_dims(a, axes)


@at_once
def squeeze(a: Any, axis: Any = None) -> Any:
    """Drop axes of size 1: those named, or all."""
    a = one("squeeze", a)
    shape = shape_of(a)
    if axis is None:
        return shape_ops.squeeze(a, [i for i, dim in enumerate(shape) if dim == 1])
    return shape_ops.squeeze(a, canonical_axes("squeeze", axis, len(shape)))


@at_once
def broadcast_to(array: Any, shape: Any) -> Any:
    """Repeat an array along new axes, and axes of size 1, up to `shape`.

    Raises: ValueError if the shapes do not fit.
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
                "axes must have size 1 or the size asked for, from the last one on",
            )
        )
    return promotion.broadcast_to(array, target)


@at_once
def broadcast_arrays(*args: Any) -> list[Any]:
    """Broadcast arrays against each other."""
    return [lifted(x) for x in _all_broadcast(*operands("broadcast_arrays", *args))]


def _all_broadcast(*args: Any) -> Sequence[Any]:
    try:
        return promotion.full_shapes("broadcast_arrays", *args)
    except TypeError as error:
        raise ValueError(str(error).replace("got incompatible", "Incompatible")) from None


def broadcast_shapes(*shapes: Any) -> tuple[Dim, ...]:
    """Return the shape that shapes broadcast to.

    Raises: ValueError if there is none.
    """
    found = [canonical_shape("broadcast_shapes", shape) for shape in shapes]
    try:
        return promotion.broadcast_shapes("broadcast_shapes", *found)
    except TypeError as error:
        raise ValueError(str(error).replace("got incompatible", "Incompatible")) from None


@at_once
def flip(m: Any, axis: Any = None) -> Any:
    """Reverse the order of elements along axes."""
    m = one("flip", m)
    rank = len(shape_of(m))
    return rev(m, canonical_axes("flip", range(rank) if axis is None else axis, rank))


def fliplr(m: Any) -> Any:
    """Reverse the second axis."""
    return flip(one("fliplr", m), 1)


def flipud(m: Any) -> Any:
    """Reverse the first axis."""
    return flip(one("flipud", m), 0)


@at_once
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turn by 90 degrees, k times, in the plane of two axes."""
    m = one("rot90", m)
    first, second = canonical_axes("rot90", axes, len(shape_of(m)))
    k %= 4
    if k == 0:
        return m
    if k == 2:
        return flip(flip(m, first), second)
    if k == 1:
        return swapaxes(flip(m, second), first, second)
    return flip(swapaxes(m, first, second), second)


@at_once
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Shift elements along axes; those that fall off come back at the other end."""
    a = one("roll", a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), shape_of(a))
    rank = len(shape_of(a))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [canonical_axis("roll", index_of("roll", x), rank) for x in given]
    shifts = np.atleast_1d(shift) if not isinstance(shift, (Tracer, ConcreteArray)) else [shift]
    if isinstance(shift, (Tracer, ConcreteArray)) and shift.ndim:
        shifts = list(shift)
    if len(shifts) == 1:
        shifts = [shifts[0]] * len(axes)
    if len(axes) == 1 and len(shifts) > 1:
        axes = axes * len(shifts)
    if len(axes) != len(shifts):
        raise ValueError(
            three_lines(
                f"roll: shift {shift}, axis {axis} at {current_source()}",
                "shift and axis arguments to roll have different lengths",
                "give one shift per axis",
            )
        )
    for one_shift, one_axis in zip(shifts, axes, strict=True):
        a = _rolled(a, one_shift, one_axis)
    return a


def _rolled(a: Any, shift: Any, axis: int) -> Any:
    size: Any = shape_of(a)[axis]
    if type(size) is int and size == 0:
        return a
    if isinstance(shift, Tracer):
        return _rolled_by_traced(a, shift, axis, size)
    if type(size) is Size:
        return _rolled_by_traced(a, np.int32(shift), axis, size)
    by = operator.index(shift) % size
    if by == 0:
        return a
    last = slice_in_dim(a, size - by, size, 1, axis)
    return concatenate([last, slice_in_dim(a, 0, size - by, 1, axis)], axis)


def _rolled_by_traced(a: Any, shift: Any, axis: int, size: Dim) -> Any:
    # The window of the doubled array that starts where the shifted one does.
    start = cast(shift, np.dtype(np.int32))
    count = elementwise.constant(size, start)
    start = elementwise.rem(start, count)
    start = elementwise.sub(count, elementwise.rem(elementwise.add(start, count), count))
    return dynamic_slice_in_dim(concatenate([a, a], axis), start, size, axis)


def atleast_1d(*arys: Any) -> Any:
    """Return arrays with at least one axis."""
    return _each("atleast_1d", arys, lambda x: _with_axes(x, 1, (0,)))


def atleast_2d(*arys: Any) -> Any:
    """Return arrays with at least two axes."""
    return _each(
        "atleast_2d", arys, lambda x: _with_axes(x, 2, (0, 1) if not shape_of(x) else (0,))
    )


def atleast_3d(*arys: Any) -> Any:
    """Return arrays with at least three axes."""
    places = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
    return _each("atleast_3d", arys, lambda x: _with_axes(x, 3, places.get(len(shape_of(x)), ())))


def _with_axes(x: Any, rank: int, places: Sequence[int]) -> Any:
    return x if len(shape_of(x)) >= rank else shape_ops.expand_dims(x, places)


def _each(name: str, arys: Sequence[Any], change: Any) -> Any:
    found = [change(one(name, x)) for x in arys]
    return found[0] if len(found) == 1 else found


def size(a: Any, axis: Any = None) -> Any:
    """Return the number of elements, of all axes or of some."""
    found = shape(a)
    if axis is None:
        return product(found)
    return product(found[i] for i in canonical_axes("size", axis, len(found)))


def shape(a: Any) -> tuple[Dim, ...]:
    """Return the shape of an array, or of what NumPy makes an array of."""
    return tuple(np.shape(a.__jax_array__() if hasattr(a, "__jax_array__") else a))


def ndim(a: Any) -> int:
    """Return the number of axes."""
    return len(shape(a))
