"""Reductions that ignore nans."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.array_type import Array, ArrayLike, Axes, DTypeLike
from kiln.numpy.creation.arrays import cast
from kiln.numpy.elements.arithmetic import divide, refuse_out
from kiln.numpy.elements.elementary import sqrt
from kiln.numpy.elements.logic import choose_by, isnan, logical_and
from kiln.numpy.promotion import broadcast_to, one, shape_of
from kiln.numpy.reductions import reductions, statistics
from kiln.numpy.reductions.reductions import kept, mask, masked, real_part_of, reduced_axes
from kiln.ops.elements import elementwise
from kiln.ops.elements.elementwise import constant

Reduction = Callable[..., Any]


def _filled(name: str, a: Any, value: Any) -> tuple[Any, Any]:
    """Return the array with nans replaced, and bools saying where they were, or None."""
    a = one(name, a)
    if not dtypes.issubdtype(a.dtype, np.inexact):
        return a, None
    holes = isnan(a)
    return choose_by(holes, constant(value, a), a), holes


def nansum(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Sum over axes, treating nans as 0.

    `where` and `initial` are those of the function without nan; `keepdims` keeps the reduced axes,
    with size 1; `out` must be None.

    Example:
        >>> jnp.nansum(jnp.array([1.0, jnp.nan, 3.0]))
        Array(4., dtype=float32)
    """
    refuse_out("nansum", out)
    a, _ = _filled("nansum", a, 0)
    return reductions.sum(a, axis, dtype, None, keepdims, initial, where)


def nanprod(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Multiply over axes, treating nans as 1.

    `where` and `initial` are those of the function without nan; `keepdims` keeps the reduced axes,
    with size 1; `out` must be None.

    Example:
        >>> jnp.nanprod(jnp.array([2.0, jnp.nan, 3.0]))
        Array(6., dtype=float32)
    """
    refuse_out("nanprod", out)
    a, _ = _filled("nanprod", a, 1)
    return reductions.prod(a, axis, dtype, None, keepdims, initial, where)


def nanmax(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the largest element along axes, ignoring nans; nan if all are.

    `where` and `initial` are those of the function without nan; `keepdims` keeps the reduced axes,
    with size 1; `out` must be None.

    Example:
        >>> jnp.nanmax(jnp.array([1.0, jnp.nan, 3.0]))
        Array(3., dtype=float32)
    """
    refuse_out("nanmax", out)
    return _extreme("nanmax", reductions.max, -math.inf, a, axis, keepdims, initial, where)


def nanmin(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the smallest element along axes, ignoring nans; nan if all are.

    `where` and `initial` are those of the function without nan; `keepdims` keeps the reduced axes,
    with size 1; `out` must be None.

    Example:
        >>> jnp.nanmin(jnp.array([jnp.nan, 3.0]))
        Array(3., dtype=float32)
    """
    refuse_out("nanmin", out)
    return _extreme("nanmin", reductions.min, math.inf, a, axis, keepdims, initial, where)


def _extreme(
    name: str,
    reduce: Reduction,
    neutral: float,
    a: Any,
    axis: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Any:
    a, holes = _filled(name, a, neutral)
    found = reduce(a, axis, None, keepdims, initial, where)
    if holes is None or initial is not None:
        return found
    nothing = reductions.all(holes, axis, keepdims=keepdims, where=where)
    return choose_by(nothing, constant(math.nan, found), found)


def nanargmax(
    a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Return the index of the largest element, ignoring nans; -1 if all are.

    NumPy raises ValueError if all elements are nan. `keepdims` keeps the reduced axes, with size 1;
    `out` must be None.

    Raises: NotImplementedError for `out`.
    Example:
        >>> jnp.nanargmax(jnp.array([1.0, jnp.nan, 3.0])), jnp.nanargmax(jnp.array([jnp.nan]))
        (Array(2, dtype=int32), Array(-1, dtype=int32))
    """
    refuse_out("nanargmax", out)
    return _position("nanargmax", reductions.argmax, -math.inf, a, axis, keepdims)


def nanargmin(
    a: ArrayLike, axis: Axes = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Return the index of the smallest element, ignoring nans; -1 if all are.

    `keepdims` keeps the reduced axes, with size 1; `out` must be None.

    Raises: NotImplementedError for `out`.
    Example:
        >>> jnp.nanargmin(jnp.array([jnp.nan, 3.0, 1.0]))
        Array(2, dtype=int32)
    """
    refuse_out("nanargmin", out)
    return _position("nanargmin", reductions.argmin, math.inf, a, axis, keepdims)


def _position(
    name: str, find: Reduction, neutral: float, a: Any, axis: Any, keepdims: bool | None
) -> Any:
    a, holes = _filled(name, a, neutral)
    found = find(a, axis, None, keepdims)
    if holes is None:
        return found
    nothing = reductions.all(holes, axis, keepdims=bool(keepdims))
    return choose_by(nothing, constant(-1, found), found)


def _given(name: str, a: Any, where: Any) -> Any:
    """Return which elements take part: not nan, and `where` holds."""
    there = elementwise.bitwise_not(isnan(a))
    if where is None:
        return there
    where = mask(name, where)
    shape = shape_of(there)
    return logical_and(there, where if shape_of(where) == shape else broadcast_to(where, shape))


def nanmean(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Average over axes, ignoring nans.

    `where` chooses the elements that count; `keepdims` keeps the reduced axes,
    with size 1; `out` must be None.

    Example:
        >>> jnp.nanmean(jnp.array([1.0, jnp.nan, 3.0]))
        Array(2., dtype=float32)
    """
    refuse_out("nanmean", out)
    a = one("nanmean", a)
    if not dtypes.issubdtype(a.dtype, np.inexact):
        return statistics.mean(a, axis, dtype, None, keepdims, where=where)
    there = _given("nanmean", a, where)
    wanted = a.dtype if dtype is None else dtypes.check_user_dtype(dtype, "nanmean")
    count = reductions.sum(there, axis, dtypes.to_floating_dtype(wanted), keepdims=keepdims)
    total = reductions.sum(masked("nanmean", a, there, 0), axis, wanted, keepdims=keepdims)
    return cast(divide(total, cast(count, total.dtype)), wanted)


def nanvar(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Return the variance over axes, ignoring nans.

    `where` chooses the elements that count; `keepdims` keeps the reduced axes,
    with size 1; `out` must be None.

    Example:
        >>> jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0]))
        Array(1., dtype=float32)
    """
    refuse_out("nanvar", out)
    a = one("nanvar", a)
    computing, wanted = statistics.variance_dtypes("nanvar", a.dtype, dtype)
    a = cast(a, computing)
    axes = reduced_axes("nanvar", axis, len(a.shape))
    there = _given("nanvar", a, where)
    if mean is None:
        mean = nanmean(a, axes, computing, keepdims=True, where=where)
    center = cast(one("nanvar", mean), computing)
    # A nan that is squared before it is masked would still reach the gradient.
    distance = elementwise.sub(masked("nanvar", a, there, 0), broadcast_to(center, a.shape))
    spread = masked("nanvar", real_part_of(distance), there, 0)
    real = spread.dtype
    count = reductions.sum(there, axes, real)
    total = reductions.sum(spread, axes)
    left = elementwise.sub(count, constant(ddof, count))
    enough = elementwise.gt(left, constant(0, left))
    out_ = choose_by(enough, divide(total, left), constant(math.nan, total))
    return kept(cast(out_, wanted), axes, keepdims)


def nanstd(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """Return the standard deviation over axes, ignoring nans.

    `where` chooses the elements that count; `keepdims` keeps the reduced axes,
    with size 1; `out` must be None.

    Example:
        >>> jnp.nanstd(jnp.array([1.0, jnp.nan, 3.0]))
        Array(1., dtype=float32)
    """
    refuse_out("nanstd", out)
    if where is not None:
        where = mask("nanstd", where)
    return sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where, mean))
