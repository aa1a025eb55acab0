"""Reordering elements along axes: flip, rot90, roll."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, Axes
from kiln.core.arrays.array import ConcreteArray
from kiln.core.trace import Tracer
from kiln.execution.eager_plans import eager
from kiln.ir.sizes.size import Dim, Size
from kiln.numpy.creation.arrays import cast
from kiln.numpy.promotion import one, shape_of
from kiln.numpy.shapes import canonical_axes, index_of, listed, ravel, reshape, swapaxes
from kiln.ops.elements import elementwise
from kiln.ops.indexing.slicing import dynamic_slice_in_dim
from kiln.ops.indexing.static_slicing import concatenate, slice_in_dim
from kiln.ops.shape import canonical_axis, rev


@eager
def flip(m: ArrayLike, axis: Axes = None) -> Array:
    """Reverse the order of elements along axes.

    Example:
        >>> jnp.flip(jnp.arange(3))
        Array([2, 1, 0], dtype=int32)
    """
    m = one("flip", m)
    rank = len(shape_of(m))
    return rev(m, canonical_axes("flip", range(rank) if axis is None else axis, rank))


def fliplr(m: ArrayLike) -> Array:
    """Reverse the second axis.

    Example:
        >>> jnp.fliplr(jnp.array([[1, 2], [3, 4]]))
        Array([[2, 1],
               [4, 3]], dtype=int32)
    """
    return flip(one("fliplr", m), 1)


def flipud(m: ArrayLike) -> Array:
    """Reverse the first axis.

    Example:
        >>> jnp.flipud(jnp.array([[1, 2], [3, 4]]))
        Array([[3, 4],
               [1, 2]], dtype=int32)
    """
    return flip(one("flipud", m), 0)


@eager
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Rotate by 90 degrees, k times, in the plane of two axes.

    Example:
        >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
        Array([[2, 4],
               [1, 3]], dtype=int32)
    """
    m = one("rot90", m)
    if len(shape_of(m)) < 2:
        raise ValueError(
            three_lines(
                f"rot90 of {m.aval} at {current_source()}",
                "rot90 requires its first argument to have ndim at least two, but got first "
                f"argument of shape {shape_of(m)}",
                "give it another axis: x[None]",
            )
        )
    first, second = canonical_axes("rot90", axes, len(shape_of(m)))
    k %= 4
    if k == 0:
        return m
    if k == 2:
        return flip(flip(m, first), second)
    if k == 1:
        return swapaxes(flip(m, second), first, second)
    return flip(swapaxes(m, first, second), second)


@eager
def roll(a: ArrayLike, shift: Any, axis: Axes = None) -> Array:
    """Shift elements along axes; those shifted past the end reappear at the start.

    `shift` may be negative, and a tuple for several axes.

    Example:
        >>> jnp.roll(jnp.arange(4), 1)
        Array([3, 0, 1, 2], dtype=int32)
        >>> jnp.roll(jnp.array([[1, 2, 3], [4, 5, 6]]), (1, -1), axis=(0, 1))
        Array([[5, 6, 4],
               [2, 3, 1]], dtype=int32)
    """
    a = one("roll", a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), shape_of(a))
    rank = len(shape_of(a))
    axes = [canonical_axis("roll", index_of("roll", x), rank) for x in listed(axis)]
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
    return a  # type: ignore[return-value]


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
