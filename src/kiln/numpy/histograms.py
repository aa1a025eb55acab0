"""Counting elements in bins."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.api.jit import jit
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.creation.arrays import asarray, cast
from kiln.numpy.creation.filling import full
from kiln.numpy.creation.ranges import linspace
from kiln.numpy.elements.arithmetic import add, divide, multiply
from kiln.numpy.elements.logic import choose_by
from kiln.numpy.manipulation.joining import stack
from kiln.numpy.promotion import one, promote_dtypes_inexact
from kiln.numpy.reductions.reductions import max, min, sum
from kiln.numpy.search import added_at, searchsorted
from kiln.numpy.shapes import ravel
from kiln.numpy.signals.differences import diff
from kiln.ops.elements import elementwise
from kiln.ops.indexing.dimension_numbers import LEAVE_OUT
from kiln.ops.indexing.static_slicing import index_in_dim, slice_in_dim
from kiln.ops.shape import reshape


def histogram_bin_edges(
    a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None
) -> Array:
    """Return the edges of bins: the given ones, or those of `bins` bins of equal width.

    `range` is the lower and upper end; `weights` has no effect.

    Example:
        >>> jnp.histogram_bin_edges(jnp.array([0.0, 4.0]), bins=4)
        Array([0., 1., 2., 3., 4.], dtype=float32)
    """
    if isinstance(bins, str):
        raise NotImplementedError(
            three_lines(
                f"histogram_bin_edges(bins={bins!r}) at {current_source()}",
                "string values for `bins` not implemented.",
                "give a number of bins, or their edges",
            )
        )
    (a,) = promote_dtypes_inexact(one("histogram_bin_edges", a))
    a = ravel(a)
    if not isinstance(bins, (int, np.integer)):
        return cast(asarray(bins), a.dtype)
    if range is None:
        low, high = (min(a), max(a)) if a.shape[0] else (asarray(0.0), asarray(1.0))
    else:
        low, high = (cast(asarray(x), a.dtype) for x in range)
    low, high = cast(low, a.dtype), cast(high, a.dtype)
    # A single value gets bins around it.
    single = elementwise.eq(low, high)
    low, high = (
        choose_by(single, add(low, -0.5), low),
        choose_by(single, add(high, 0.5), high),
    )
    return linspace(low, high, int(bins) + 1, dtype=a.dtype)


def histogram(
    a: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """Count (or sum the weights of) the elements in each bin; return counts and edges.

    The number of bins has to be known while tracing; the range may be traced. `density` divides the
    counts by their sum and by the sizes of the bins; `weights` are added instead of ones. `range`
    is the lower and upper end of equal bins.

    Example:
        >>> jnp.histogram(jnp.array([0.1, 0.2, 0.9]), bins=2, range=(0, 1))
        (Array([2., 1.], dtype=float32), Array([0. , 0.5, 1. ], dtype=float32))
    """
    a = one("histogram", a)
    if weights is None:
        (values,) = promote_dtypes_inexact(a)
        given = full(values.shape, 1, values.dtype)
    else:
        values, given = promote_dtypes_inexact(a, one("histogram", weights))
        if tuple(values.shape) != tuple(given.shape):
            raise ValueError(
                f"histogram at {current_source()}\n"
                "weights should have the same shape as a.\ngive as many"
            )
    edges = histogram_bin_edges(values, bins, range, weights)
    values, given = ravel(values), ravel(given)
    counts = _counted([values], [edges], given)
    if density:
        counts = divide(divide(counts, diff(edges)), sum(counts))
    return counts, edges


@functools.partial(jit, inline=True)
def _counted(samples: Sequence[Any], edges: Sequence[Any], weights: Any) -> Any:
    """Return the weights of samples summed by bin, along one axis per coordinate.

    Compiled, because its many passes over the samples are one.
    """
    shape = [e.shape[0] - 1 for e in edges]
    place = None
    for x, e, bins in zip(samples, edges, shape, strict=True):
        last = index_in_dim(e, bins, 0, keepdims=False)
        number = elementwise.sub(searchsorted(e, x, "right"), np.int32(1))
        # The last bin holds its right edge.
        number = choose_by(elementwise.eq(x, last), np.int32(bins - 1), number)
        outside = elementwise.bitwise_or(
            elementwise.lt(number, np.int32(0)), elementwise.ge(number, np.int32(bins))
        )
        total = int(np.prod(shape))
        number = choose_by(outside, np.int32(total * bins), number)
        place = number if place is None else add(multiply(place, np.int32(bins)), number)
    total = int(np.prod(shape))
    place = choose_by(
        elementwise.bitwise_or(
            elementwise.lt(place, np.int32(0)),  # type: ignore[arg-type]
            elementwise.ge(place, np.int32(total)),  # type: ignore[arg-type]
        ),
        np.int32(total),
        place,
    )
    return reshape(added_at(full((total,), 0, weights.dtype), place, weights, LEAVE_OUT), shape)


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """Count points of several coordinates in a grid of bins; return counts and edges.

    `density` divides the counts by their sum and by the sizes of the bins; `weights` are added
    instead of ones. `range` is the lower and upper end of equal bins.

    Example:
        >>> points = jnp.array([[0.1, 0.2], [0.9, 0.7]])
        >>> counts, edges = jnp.histogramdd(points, bins=2, range=[(0, 1), (0, 1)])
        >>> counts
        Array([[1, 0],
               [0, 1]], dtype=int32)
    """
    (sample,) = promote_dtypes_inexact(one("histogramdd", sample))
    if len(sample.shape) == 1:
        sample = reshape(sample, (sample.shape[0], 1))
    n, rank = sample.shape
    columns = [reshape(slice_in_dim(sample, i, i + 1, 1, 1), (n,)) for i in _upto(rank)]
    each = [bins] * rank if isinstance(bins, (int, np.integer)) else list(bins)
    if len(each) != rank:
        raise ValueError(
            f"histogramdd with {len(each)} bins for {rank} coordinates at {current_source()}\n"
            "should be a bin for each dimension.\ngive one number of bins per coordinate"
        )
    ranges = [None] * rank if range is None else list(range)
    edges = [histogram_bin_edges(x, b, r) for x, b, r in zip(columns, each, ranges, strict=True)]
    given = (
        full((n,), 1, dtypes.default_int_dtype())
        if weights is None
        else one("histogramdd", weights)
    )
    counts = _counted(columns, edges, given)
    if density:
        total = sum(counts)
        counts = divide(counts, total)
        for axis, e in enumerate(edges):
            width = diff(e)
            view = [1] * rank
            view[axis] = width.shape[0]
            counts = divide(counts, reshape(width, view))
    return counts, edges


def _upto(n: Any) -> Any:
    return [*np.arange(n).tolist()]


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """Count points of two coordinates in a grid of bins; return counts and both edges.

    `density` divides the counts by their sum and by the sizes of the bins; `weights` are added
    instead of ones. `range` is the lower and upper end of equal bins.

    Example:
        >>> x, y = jnp.array([0.1, 0.9, 0.8]), jnp.array([0.2, 0.7, 0.1])
        >>> jnp.histogram2d(x, y, bins=2, range=[[0, 1], [0, 1]])[0]
        Array([[1, 0],
               [1, 1]], dtype=int32)
    """
    x, y = one("histogram2d", x), one("histogram2d", y)
    if isinstance(bins, (tuple, list)) and len(bins) == 2:
        each: Any = bins
    elif isinstance(bins, (int, np.integer)):
        each = bins
    else:
        each = [bins, bins]
    counts, edges = histogramdd(
        stack(promote_dtypes_inexact(x, y), axis=1), each, range, weights, density
    )
    return counts, edges[0], edges[1]
