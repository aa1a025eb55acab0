"""Quantiles, percentiles and medians: positions in the sorted elements."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.api.jit import jit
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, Axes
from kiln.core.trace import aval_of
from kiln.numpy.creation.arrays import cast
from kiln.numpy.creation.filling import full, ones_like
from kiln.numpy.elements.arithmetic import clip, divide, refuse_out
from kiln.numpy.elements.logic import choose_by, isnan
from kiln.numpy.indexing.taking import take
from kiln.numpy.promotion import one, operands, promote_dtypes_inexact, shape_of
from kiln.numpy.reductions.cumulative import cumsum
from kiln.numpy.reductions.reductions import any, element_count, reduced_axes, sum
from kiln.ops.elements import elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.out_sharding import sharded
from kiln.ops.reductions import sorting
from kiln.ops.shape import broadcast_in_dim, expand_dims, reshape, transpose

METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return the quantiles `q` (from 0 to 1) over axes, propagating nans.

    `method` says what lies between two elements: "linear", "lower", "higher", "midpoint", "nearest"
    or "inverted_cdf", which alone takes `weights`. `keepdims` keeps the reduced axes, with size 1.
    `out` and `overwrite_input` are refused, since arrays do not change.

    Raises: ValueError for another method, or `overwrite_input`; NotImplementedError for `out`, or
        weights with another method.
    Example:
        >>> x = jnp.array([1.0, 2.0, 4.0])
        >>> jnp.quantile(x, 0.75), jnp.quantile(x, 0.75, method="lower")
        (Array(3., dtype=float32), Array(2., dtype=float32))
    """
    _refuse_reuse("quantile", out, overwrite_input)
    return quantile_of("quantile", a, q, axis, method, keepdims, False, weights)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return the quantiles `q` (from 0 to 1) over axes, ignoring nans.

    `method` says what lies between two elements: "linear", "lower", "higher", "midpoint", "nearest"
    or "inverted_cdf", which alone takes `weights`. `keepdims` keeps the reduced axes, with size 1.
    `out` and `overwrite_input` are refused, since arrays do not change.

    Raises: ValueError for another method, or `overwrite_input`; NotImplementedError for `out`, or
        weights with another method.
    Example:
        >>> jnp.nanquantile(jnp.array([1.0, jnp.nan, 3.0]), 0.25)
        Array(1.5, dtype=float32)
    """
    _refuse_reuse("nanquantile", out, overwrite_input)
    return quantile_of("nanquantile", a, q, axis, method, keepdims, True, weights)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Return the percentiles `q` (from 0 to 100) over axes, propagating nans.

    `method` says what lies between two elements: "linear", "lower", "higher", "midpoint", "nearest"
    or "inverted_cdf", which alone takes `weights`. `keepdims` keeps the reduced axes, with size 1.
    `out` and `overwrite_input` are refused, since arrays do not change.

    Raises: ValueError for another method, or `overwrite_input`; NotImplementedError for `out`, or
        weights with another method.
    Example:
        >>> jnp.percentile(jnp.arange(5), jnp.array([25, 50]))
        Array([1., 2.], dtype=float32)
    """
    _refuse_reuse("percentile", out, overwrite_input)
    return sharded(
        quantile_of("percentile", a, _hundredths(q), axis, method, keepdims, False, weights),
        out_sharding,
        "jnp.percentile",
    )


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """Return the percentiles `q` (from 0 to 100) over axes, ignoring nans.

    `method` says what lies between two elements: "linear", "lower", "higher", "midpoint", "nearest"
    or "inverted_cdf", which alone takes `weights`. `keepdims` keeps the reduced axes, with size 1.
    `out` and `overwrite_input` are refused, since arrays do not change.

    Raises: ValueError for another method, or `overwrite_input`; NotImplementedError for `out`, or
        weights with another method.
    Example:
        >>> jnp.nanpercentile(jnp.array([1.0, jnp.nan, 3.0]), 50)
        Array(2., dtype=float32)
    """
    _refuse_reuse("nanpercentile", out, overwrite_input)
    return quantile_of("nanpercentile", a, _hundredths(q), axis, method, keepdims, True, weights)


def _refuse_reuse(name: str, out: Any, overwrite_input: bool) -> None:
    refuse_out(name, out)
    if overwrite_input:
        raise ValueError(
            three_lines(
                f"{name}(..., overwrite_input=True) at {current_source()}",
                f"{name} does not support overwrite_input=True: arrays are immutable",
                "leave overwrite_input out",
            )
        )


def _hundredths(q: Any) -> Any:
    return divide(q, 100)


def median(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Return the median over axes, propagating nans.

    `keepdims` keeps the reduced axes, with size 1. `out` and `overwrite_input` are refused, since
    arrays do not change.

    Raises: ValueError for `overwrite_input`; NotImplementedError for `out`.
    Example:
        >>> jnp.median(jnp.array([[1, 5, 2], [4, 4, 9]]), axis=1)
        Array([2., 4.], dtype=float32)
    """
    _refuse_reuse("median", out, overwrite_input)
    return quantile_of("median", a, 0.5, axis, "midpoint", keepdims, False)


def nanmedian(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Return the median over axes, ignoring nans.

    `keepdims` keeps the reduced axes, with size 1. `out` and `overwrite_input` are refused, since
    arrays do not change.

    Raises: ValueError for `overwrite_input`; NotImplementedError for `out`.
    Example:
        >>> jnp.nanmedian(jnp.array([1.0, jnp.nan, 3.0]))
        Array(2., dtype=float32)
    """
    _refuse_reuse("nanmedian", out, overwrite_input)
    return quantile_of("nanmedian", a, 0.5, axis, "midpoint", keepdims, True)


def quantile_of(
    name: str,
    a: Any,
    q: Any,
    axis: Any,
    method: str,
    keepdims: bool,
    skip_nan: bool,
    weights: Any = None,
) -> Any:
    """Return quantiles over axes, as a new leading axis if `q` is a vector.

    Raises: ValueError for an unknown method; NotImplementedError for weights with another method
        than 'inverted_cdf'.
    """
    if method not in METHODS:
        raise ValueError(
            three_lines(
                f"{name}(..., method={method!r}) at {current_source()}",
                "method can only be 'linear', 'lower', 'higher', 'midpoint', 'nearest' "
                "or 'inverted_cdf'",
                "use one of them",
            )
        )
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(
            three_lines(
                f"{name}(..., method={method!r}, weights=...) at {current_source()}",
                f"{method} doesn't support weights. Only method 'inverted_cdf' supports weights.",
                "add method='inverted_cdf'",
            )
        )
    a, q = operands(name, a, q)
    if len(shape_of(q)) > 1:
        raise ValueError(
            f"{name}(q={aval_of(q)}) at {current_source()}\nq must be have rank <= 1\nuse a vector"
        )
    a, q = (one(name, *promote_dtypes_inexact(x)) for x in (a, q))
    a, q = cast(a, a.dtype), cast(q, q.dtype)
    if dtypes.issubdtype(a.dtype, np.complexfloating):
        raise ValueError(
            f"{name} of {a.aval} at {current_source()}\n"
            "quantile does not support complex input, as the operation is "
            "poorly defined.\nuse real numbers"
        )
    rank = len(a.shape)
    axes = reduced_axes(name, axis, rank)
    rest = [d for d in range(rank) if d not in axes]
    n = element_count(a, axes)
    if weights is not None:
        weights = _spread_weights(name, weights, a, axes)

    def flattened(x: Any) -> Any:
        return reshape(transpose(x, (*rest, *axes)), (*(x.shape[d] for d in rest), n))

    if method == "inverted_cdf":
        weights = ones_like(a) if weights is None else weights
        out = _inverted_distribution(
            flattened(a), cast(q, a.dtype), flattened(weights), skip_nan=skip_nan
        )
    else:
        out = cast(_sorted_quantile(flattened(a), q, method=method, skip_nan=skip_nan), a.dtype)
    if keepdims and axes:
        lead = len(q.shape)
        out = expand_dims(out, [lead + d for d in axes])
    return out


@functools.partial(jit, static_argnames=("method", "skip_nan"), inline=True)
def _sorted_quantile(a: Any, q: Any, method: str, skip_nan: bool) -> Any:
    """Return the quantiles of vectors along the last axis, between elements as `method` says."""
    n = a.shape[-1]
    rest = tuple(a.shape[:-1])
    shape = (*q.shape, *rest)
    if 0 in [d for d in (n, *shape) if type(d) is int]:
        return full(shape, math.nan, a.dtype)
    ordered = sorting.sort(a, dimension=len(rest))
    if skip_nan:
        count = sum(elementwise.bitwise_not(isnan(a)), -1, q.dtype)
        last = elementwise.sub(count, constant(1, count))
        spread_q = broadcast_in_dim(q, shape, range(len(q.shape)))
        last = broadcast_in_dim(last, shape, range(len(q.shape), len(shape)))
        place = elementwise.mul(spread_q, last)
        low, high = elementwise.floor(place), elementwise.ceil(place)
        high_part = elementwise.sub(place, low)
        zero = constant(0, low)
        low = elementwise.max(elementwise.min(low, last), zero)
        high = elementwise.max(elementwise.min(high, last), zero)
    else:
        ordered = choose_by(any(isnan(a), -1, keepdims=True), math.nan, ordered)
        place = elementwise.mul(q, constant(n - 1, q))
        low, high = elementwise.floor(place), elementwise.ceil(place)
        high_part = elementwise.sub(place, low)
        low, high = (clip(x, 0, n - 1) for x in (low, high))
    if method == "nearest":
        half = elementwise.le(high_part, constant(0.5, high_part))
        low = choose_by(half, low, high)
    low_value, high_value = (_taken(ordered, i, len(q.shape), shape, skip_nan) for i in (low, high))
    if method in ("lower", "nearest"):
        return low_value
    if method == "higher":
        return high_value
    if method == "midpoint":
        both = elementwise.add(low_value, high_value)
        return elementwise.mul(both, constant(0.5, both))
    if not skip_nan:
        high_part = broadcast_in_dim(high_part, shape, range(len(q.shape)))
    low_part = elementwise.sub(constant(1, high_part), high_part)
    low_value, high_value = cast(low_value, q.dtype), cast(high_value, q.dtype)
    return elementwise.add(
        elementwise.mul(low_value, low_part), elementwise.mul(high_value, high_part)
    )


def _spread_weights(name: str, weights: Any, a: Any, axes: Sequence[int]) -> Any:
    weights = cast(one(name, weights), a.dtype)
    if weights.shape == a.shape:
        return weights
    if len(axes) != 1 or weights.shape != (a.shape[axes[0]],):
        raise ValueError(
            three_lines(
                f"{name} of {a.aval} over axis {tuple(axes)} with weights {weights.aval}"
                f" at {current_source()}",
                "weights must have the shape of a, or be a vector as long as the one axis",
                "broadcast the weights to the shape of a",
            )
        )
    return broadcast_in_dim(weights, a.shape, axes)


@functools.partial(jit, static_argnames="skip_nan", inline=True)
def _inverted_distribution(a: Any, q: Any, weights: Any, skip_nan: bool) -> Any:
    """Return the first sorted element at which the cumulative weight reaches `q` of the total."""
    n = a.shape[-1]
    shape = (*q.shape, *a.shape[:-1])
    if 0 in [d for d in (n, *shape) if type(d) is int]:
        return full(shape, math.nan, a.dtype)
    missing = isnan(a)
    weights = choose_by(missing, 0, weights)
    last = len(a.shape) - 1
    ordered, weights = sorting.sort((a, weights), dimension=last)
    reached = cumsum(weights, axis=-1)
    total = reached[..., -1:]
    whole = (*shape, n)
    q_axes, own_axes = range(len(q.shape)), range(len(q.shape), len(whole))
    wanted = elementwise.mul(
        broadcast_in_dim(q, whole, q_axes),
        broadcast_in_dim(total, whole, own_axes),
    )
    before = sum(elementwise.lt(broadcast_in_dim(reached, whole, own_axes), wanted), -1)
    place = elementwise.min(before, constant(n - 1, before))
    found = _taken(ordered, place, len(q.shape), shape, each=True)
    empty = reshape(total, a.shape[:-1]) if skip_nan else None
    undefined = elementwise.eq(empty, constant(0, empty)) if skip_nan else any(missing, -1)  # type: ignore[arg-type]
    return choose_by(broadcast_in_dim(undefined, shape, own_axes[:-1]), math.nan, found)


def _taken(ordered: Any, place: Any, q_rank: int, shape: tuple[Any, ...], each: bool) -> Any:
    """Return the elements at a position of the last axis, common to all vectors or one for each."""
    place = cast(place, np.dtype(np.int32))
    if each:
        spread = broadcast_in_dim(
            ordered, (*shape, ordered.shape[-1]), range(q_rank, len(shape) + 1)
        )
        return reshape(
            sorting.take_along(spread, expand_dims(place, (len(shape),)), len(shape)), shape
        )
    found = take(ordered, place, axis=-1, mode="clip")
    rank = len(shape)
    rest = rank - q_rank
    return transpose(found, (*range(rest, rank), *range(rest)))
