"""Statistics of samples along an axis: modes, ranks, standard errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import inexact, lifted
from kiln.ops.reductions.cumulative import cummax
from kiln.ops.shape import canonical_axis

METHODS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """The most frequent values, and how often they occur."""

    mode: Array
    count: Array  # type: ignore[assignment]


def _check_nan_policy(name: str, nan_policy: str) -> None:
    if nan_policy == "propagate":
        return
    asked = f"{name} with nan_policy={nan_policy!r} at {current_source()}"
    if nan_policy in ("omit", "raise"):
        raise NotImplementedError(
            three_lines(
                asked,
                f"Logic for `nan_policy` of {nan_policy} is not implemented",
                'use "propagate", and remove nan first',
            )
        )
    raise ValueError(
        three_lines(
            asked,
            f"Illegal nan_policy value {nan_policy!r}; expected one of propagate, omit, raise",
            'use "propagate"',
        )
    )


def _rows(name: str, a: Any, axis: int | None) -> tuple[Any, int]:
    """Return an array with the axis last, and where it was; flattened without an axis."""
    x = jnp.asarray(a)
    if axis is None:
        return x.ravel(), 0
    if x.ndim == 0:
        x = x[None]
    axis = canonical_axis(name, axis, x.ndim)
    return jnp.moveaxis(x, axis, -1), axis


def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """Return the most frequent values along an axis, the least of several, and their counts.

    Raises: NotImplementedError for another `nan_policy` than "propagate".
    Example:
        >>> kiln.scipy.stats.mode(jnp.array([3, 1, 3, 2])).mode
        Array(3, dtype=int32)
    """
    _check_nan_policy("mode", nan_policy)
    rows, place = _rows("mode", a, axis)
    if rows.shape[-1] == 0:
        nothing = jnp.full(rows.shape[:-1], math.nan, dtypes.default_float_dtype())
        return ModeResult(nothing, jnp.zeros(rows.shape[:-1], nothing.dtype))
    ordered = jnp.sort(rows, axis=-1)
    counts = _last_of_equals(ordered) - _first_of_equals(ordered) + 1
    best = jnp.argmax(counts, axis=-1, keepdims=True)
    value = jnp.take_along_axis(ordered, best, -1)
    count = jnp.take_along_axis(counts, best, -1)
    if dtypes.issubdtype(rows.dtype, np.inexact):
        some = jnp.any(jnp.isnan(rows), axis=-1, keepdims=True)
        times = jnp.sum(jnp.isnan(rows), axis=-1, keepdims=True)
        value = jnp.where(some, math.nan, value)
        count = jnp.where(some, times, count)
    if not keepdims:
        return ModeResult(value[..., 0], count[..., 0])
    if axis is None:
        shape = (1,) * jnp.ndim(a)
        return ModeResult(value.reshape(shape), count.reshape(shape))
    return ModeResult(jnp.moveaxis(value, -1, place), jnp.moveaxis(count, -1, place))


def _positions(x: Any) -> Any:
    return jnp.broadcast_to(jnp.arange(x.shape[-1]), x.shape)


def _first_of_equals(ordered: Any) -> Any:
    """Return for each element of sorted rows the position of the first one equal to it."""
    fresh = jnp.ones(ordered.shape, bool)
    fresh = fresh.at[..., 1:].set(ordered[..., 1:] != ordered[..., :-1])
    return _running_maximum(jnp.where(fresh, _positions(ordered), 0))


def _last_of_equals(ordered: Any) -> Any:
    turned = jnp.flip(ordered, -1)
    return ordered.shape[-1] - 1 - jnp.flip(_first_of_equals(turned), -1)


def _running_maximum(x: Any) -> Any:
    return cummax(x, axis=x.ndim - 1)


def rankdata(
    a: ArrayLike,
    method: str = "average",
    *,
    axis: int | None = None,
    nan_policy: str = "propagate",
) -> Array:
    """Return the ranks of elements along an axis, from 1, as floats; equal elements by `method`.

    "average", "min" and "max" of the ranks that equal elements share, "dense" ranks without gaps,
    or "ordinal" ranks, in order. A row with nan has no ranks but nan.

    Raises: ValueError for another method, NotImplementedError for another `nan_policy`.
    Example:
        >>> kiln.scipy.stats.rankdata(jnp.array([30, 10, 30, 20]))
        Array([3.5, 1. , 3.5, 2. ], dtype=float32)
    """
    _check_nan_policy("rankdata", nan_policy)
    if method not in METHODS:
        raise ValueError(
            three_lines(
                f"rankdata with method={method!r} at {current_source()}",
                f'unknown method "{method}"',
                f"use one of: {', '.join(METHODS)}",
            )
        )
    rows, place = _rows("rankdata", a, axis)
    order = jnp.argsort(rows, axis=-1)
    back = jnp.argsort(order, axis=-1)
    ordered = jnp.take_along_axis(rows, order, -1)
    dtype = dtypes.default_float_dtype()
    if method == "ordinal":
        ranks = back + 1
    else:
        first, last = _first_of_equals(ordered), _last_of_equals(ordered)
        if method == "dense":
            found = jnp.cumsum(first == _positions(ordered), axis=-1)
        elif method == "min":
            found = first + 1
        elif method == "max":
            found = last + 1
        else:
            found = 0.5 * (first + last).astype(dtype) + 1
        ranks = jnp.take_along_axis(found, back, -1)
    ranks = ranks.astype(dtype)
    if dtypes.issubdtype(rows.dtype, np.inexact):
        ranks = jnp.where(jnp.any(jnp.isnan(rows), axis=-1, keepdims=True), math.nan, ranks)
    return ranks if axis is None else jnp.moveaxis(ranks, -1, place)


def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """Return the standard error of the mean: the deviation over the root of the count.

    With the `nan_policy` "omit", nan are left out.

    Raises: ValueError for another policy than "propagate" and "omit".
    Example:
        >>> kiln.scipy.stats.sem(jnp.array([1.0, 2.0, 3.0])).round(4)
        Array(0.5774, dtype=float32)
    """
    x = lifted(inexact("sem", jnp.asarray(a)))
    if nan_policy == "omit":
        count = jnp.sum(~jnp.isnan(x), axis=axis, keepdims=keepdims)
        deviation = jnp.nanstd(x, axis=axis, ddof=ddof, keepdims=keepdims)
        return deviation / jnp.sqrt(count.astype(x.dtype))
    if nan_policy != "propagate":
        raise ValueError(
            three_lines(
                f"sem with nan_policy={nan_policy!r} at {current_source()}",
                f"{nan_policy} is not supported",
                'use "propagate" or "omit"',
            )
        )
    size = x.size if axis is None else x.shape[canonical_axis("sem", axis, x.ndim)]
    return jnp.std(x, axis=axis, ddof=ddof, keepdims=keepdims) / math.sqrt(size)
