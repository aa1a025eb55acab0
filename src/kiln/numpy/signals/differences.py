"""Differences of neighbors, gradients, and integrals of samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, Axes
from kiln.numpy.creation.arrays import cast
from kiln.numpy.elements.arithmetic import add, divide, multiply, negative, subtract
from kiln.numpy.elements.logic import not_equal
from kiln.numpy.manipulation.joining import concatenate
from kiln.numpy.promotion import broadcast_to, one, operands, promote_dtypes_inexact, shape_of
from kiln.numpy.reductions.reductions import sum
from kiln.numpy.shapes import canonical_axes, moveaxis, ravel
from kiln.ops.indexing.static_slicing import slice_in_dim
from kiln.ops.shape import canonical_axis, expand_dims


def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """Return the n-th differences of neighbors along an axis; for bools, whether they differ.

    `prepend` and `append` are joined to `a` before.

    Example:
        >>> jnp.diff(jnp.array([1, 4, 9, 16])), jnp.diff(jnp.array([1, 4, 9, 16]), n=2)
        (Array([3, 5, 7], dtype=int32), Array([2, 2], dtype=int32))
        >>> jnp.diff(jnp.array([[1, 4], [9, 16]]), axis=0)
        Array([[ 8, 12]], dtype=int32)
    """
    a = one("diff", a)
    if n < 0:
        raise ValueError(
            f"diff(n={n}) at {current_source()}\n"
            f"order must be non-negative but got {n}\nuse 0 or more"
        )
    if not a.shape:
        raise ValueError(
            three_lines(
                f"diff of a scalar at {current_source()}",
                f"diff requires input that is at least one dimensional; got {a.aval}",
                "use an array with an axis",
            )
        )
    axis = canonical_axis("diff", axis, len(a.shape))
    if n == 0:
        return a
    parts = [a]
    for extra, place in ((prepend, 0), (append, 2)):
        if extra is not None:
            extra = one("diff", *operands("diff", extra))
            if not extra.shape:
                shape = list(a.shape)
                shape[axis] = 1
                extra = broadcast_to(extra, tuple(shape))
            parts.insert(place, extra)
    if len(parts) > 1:
        a = concatenate(parts, axis)
    op = not_equal if a.dtype == np.bool_ else subtract
    for _ in range(n):
        a = op(*_neighbors(a, axis))
    return a


def _neighbors(a: Any, axis: int) -> tuple[Any, Any]:
    """Return all elements but the first along an axis, and the element before each of them."""
    if type(a.shape[axis]) is int and a.shape[axis] == 0:
        return a, a
    return slice_in_dim(a, 1, None, 1, axis), slice_in_dim(a, 0, -1, 1, axis)


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """Return the differences of neighbors in the flattened array, between given ends.

    Example:
        >>> jnp.ediff1d(jnp.array([1, 4, 9]), to_begin=jnp.array([0]))
        Array([0, 3, 5], dtype=int32)
    """
    flat = ravel(one("ediff1d", ary))
    parts = [subtract(*_neighbors(flat, 0))]
    if to_begin is not None:
        parts.insert(0, cast(ravel(one("ediff1d", to_begin)), flat.dtype))
    if to_end is not None:
        parts.append(cast(ravel(one("ediff1d", to_end)), flat.dtype))
    return concatenate(parts) if len(parts) > 1 else parts[0]


def gradient(f: ArrayLike, *varargs: Any, axis: Axes = None, edge_order: int | None = None) -> Any:
    """Return gradients along axes: central differences inside, one-sided ones at the ends.

    Not the derivative of a function: that is `kiln.grad`. `varargs` are the spacing, one number for
    all axes or for each axis a number or the coordinates; `edge_order` must be None.

    Example:
        >>> jnp.gradient(jnp.array([1.0, 4.0, 9.0]))
        Array([3., 4., 5.], dtype=float32)
    """
    if edge_order is not None:
        raise NotImplementedError(
            three_lines(
                f"gradient(..., edge_order={edge_order}) at {current_source()}",
                "The 'edge_order' argument to jnp.gradient is not supported.",
                "leave it out",
            )
        )
    f, *given = promote_dtypes_inexact(one("gradient", f), *operands("gradient", *varargs))
    rank = len(f.shape)
    axes = tuple(range(rank)) if axis is None else canonical_axes("gradient", axis, rank)
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError(
            f"gradient with {len(varargs)} spacings for {len(axes)} axes at {current_source()}\n"
            "Invalid number of spacing arguments\ngive none, one, or one per axis"
        )
    spacings = given or [1.0]
    if len(spacings) == 1:
        spacings = spacings * len(axes)
    if any(f.shape[d] < 2 for d in axes):
        raise ValueError(
            three_lines(
                f"gradient of {f.aval} at {current_source()}",
                "Shape of array too small to calculate a numerical gradient, at least 2 elements "
                "are required.",
                "use longer axes",
            )
        )
    found = [_slope(f, h, d) for h, d in zip(spacings, axes, strict=True)]
    return found[0] if len(axes) == 1 else found


def _slope(f: Any, h: Any, axis: int) -> Any:
    f = moveaxis(f, axis, -1)
    last = len(f.shape) - 1

    def part(start: int, stop: int | None) -> Any:
        return slice_in_dim(f, start, stop, 1, last)

    if not shape_of(h):
        inner = divide(multiply(subtract(part(2, None), part(0, -2)), 0.5), h)
        first = divide(subtract(part(1, 2), part(0, 1)), h)
        final = divide(subtract(part(-1, None), part(-2, -1)), h)
    else:
        h = expand_dims(h, range(last))
        steps = subtract(slice_in_dim(h, 1, None, 1, last), slice_in_dim(h, 0, -1, 1, last))
        before = slice_in_dim(steps, 0, -1, 1, last)
        after = slice_in_dim(steps, 1, None, 1, last)
        both = multiply(before, multiply(after, add(before, after)))
        low = divide(negative(multiply(after, after)), both)
        middle = divide(subtract(multiply(after, after), multiply(before, before)), both)
        high = divide(multiply(before, before), both)
        inner = add(
            add(multiply(low, part(0, -2)), multiply(middle, part(1, -1))),
            multiply(high, part(2, None)),
        )
        first = divide(subtract(part(1, 2), part(0, 1)), slice_in_dim(steps, 0, 1, 1, last))
        final = subtract(part(-1, None), part(-2, -1))
        final = divide(final, slice_in_dim(steps, -1, None, 1, last))
    return moveaxis(concatenate([first, inner, final], -1), -1, axis)


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """Integrate samples along an axis by the trapezoidal rule.

    Example:
        >>> jnp.trapezoid(jnp.array([1.0, 2.0, 3.0]), dx=0.5)
        Array(2., dtype=float32)
    """
    distance = dx
    if x is None:
        (y,) = promote_dtypes_inexact(one("trapezoid", y))
        if np.ndim(dx):
            distance = one("trapezoid", dx)
            more = range(len(y.shape) - len(distance.shape))
            distance = moveaxis(expand_dims(distance, more), axis, -1)
    else:
        y, x = promote_dtypes_inexact(one("trapezoid", y), one("trapezoid", x))
        distance = diff(x if len(x.shape) == 1 else moveaxis(x, axis, -1))
    y = moveaxis(y, axis, -1)
    last = len(y.shape) - 1
    pairs = add(slice_in_dim(y, 1, None, 1, last), slice_in_dim(y, 0, -1, 1, last))
    return multiply(sum(multiply(distance, pairs), -1), 0.5)
