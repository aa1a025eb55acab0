"""Searching in sorted arrays: searchsorted, digitize; counting into bins."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from kiln.api.jit import jit
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.numpy.creation.arrays import cast, concrete_number
from kiln.numpy.creation.filling import full
from kiln.numpy.elements.logic import choose_by, greater_equal, isnan, less, less_equal
from kiln.numpy.indexing.taking import take
from kiln.numpy.promotion import one, operands, promote_dtypes
from kiln.ops.elements import elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.indexing import indexing
from kiln.ops.indexing.dimension_numbers import FILL_OR_DROP, GatherScatterMode
from kiln.ops.out_sharding import sharded
from kiln.ops.shape import broadcast_in_dim, expand_dims, reduce_sum

_INT = np.dtype(np.int32)
_COMPARED_WITH_ALL = 128
"""Up to this many sorted values, comparing with each is cheaper than a search."""


def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """Return the indices at which inserting `v` keeps a sorted vector sorted.

    `side` says whether the index is to the left or to the right of equal elements. `sorter` are
    indices that sort `a`. `method` chooses how to search in programs ("scan", "scan_unrolled",
    "sort", "compare_all"): results are the same.

    Raises: ValueError for another `side` or `method`, and unless `a` is a vector.
    Example:
        >>> jnp.searchsorted(jnp.array([1, 3, 5]), jnp.array([0, 3, 9]))
        Array([0, 1, 3], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ValueError(
            f"searchsorted(side={side!r}) at {current_source()}\n"
            f"{side!r} is an invalid value for 'side'\nuse 'left' or 'right'"
        )
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(
            f"searchsorted(method={method!r}) at {current_source()}\nunknown method\nuse 'scan'"
        )
    a, v = (one("searchsorted", x) for x in operands("searchsorted", a, v))
    if len(a.shape) != 1:
        raise ValueError(
            three_lines(
                f"searchsorted in {a.aval} at {current_source()}",
                "a should be 1-dimensional",
                "search in a vector",
            )
        )
    if sorter is not None:
        a = take(a, sorter)
    return _located(*promote_dtypes(a, v), side=side, with_all=method == "compare_all")


@functools.partial(jit, static_argnames=("side", "with_all"), inline=True)
def _located(a: Any, v: Any, side: str, with_all: bool) -> Any:
    """Return how many elements of a sorted vector stand before each value.

    Compiled, because its many passes over the values are one.
    """
    n = a.shape[0]
    if type(n) is int and n == 0:
        return full(v.shape, 0, _INT)
    if type(n) is not int or n <= _COMPARED_WITH_ALL or with_all:
        return _count_before(a, v, side)
    return _bisected(a, v, side)


def _bisected(a: Any, v: Any, side: str) -> Any:
    """Return how many elements of a sorted vector stand before each value."""
    compare = less if side == "left" else less_equal
    # Elements before `low` stand before the value; `rest` more may. No step leaves the vector, and
    # their number depends on its size alone, so steps neither branch nor wait for each other.
    low = full(v.shape, 0, _INT)
    rest = a.shape[0]
    while rest > 1:
        half = rest // 2
        middle = elementwise.add(low, np.int32(half))
        element = take(a, elementwise.sub(middle, np.int32(1)), mode="clip")
        low = elementwise.select(compare(element, v), middle, low)
        rest -= half
    last = compare(take(a, low, mode="clip"), v)
    low = elementwise.add(low, cast(last, _INT))
    if not dtypes.issubdtype(v.dtype, np.inexact):
        return low
    # A nan comes after all numbers, next to other nans.
    numbers = a.shape[0]
    if side == "left":
        numbers = reduce_sum(cast(elementwise.bitwise_not(isnan(a)), _INT), (0,))
    return choose_by(isnan(v), numbers, low)


def _stands_before(element: Any, value: Any, side: str) -> Any:
    compare = less if side == "left" else less_equal
    found = compare(element, value)
    if not dtypes.issubdtype(aval_of(element).dtype, np.inexact):
        return found
    # A nan comes after all numbers, next to other nans.
    last = isnan(value)
    if side == "left":
        last = elementwise.bitwise_and(last, elementwise.bitwise_not(isnan(element)))
    return elementwise.bitwise_or(found, last)


def _count_before(a: Any, v: Any, side: str) -> Any:
    target = (*v.shape, a.shape[0])
    rank = len(target)
    elements = broadcast_in_dim(a, target, (rank - 1,))
    values = broadcast_in_dim(v, target, range(rank - 1))
    return reduce_sum(cast(_stands_before(elements, values, side), _INT), (rank - 1,))


def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    """Return the index of each element's bin; `bins` are ascending or descending edges.

    Index i says that bins[i-1] <= x < bins[i], or with `right` that bins[i-1] < x <= bins[i].
    `method` has no effect.

    Raises: ValueError unless `bins` is a vector.
    Example:
        >>> jnp.digitize(jnp.array([0.5, 1.0, 9.0]), jnp.array([0.0, 1.0, 2.0]))
        Array([1, 2, 3], dtype=int32)
    """
    x, bins = (one("digitize", v) for v in operands("digitize", x, bins))
    if len(bins.shape) != 1:
        raise ValueError(
            f"digitize with bins {bins.aval} at {current_source()}\n"
            "digitize: bins must be a 1-dimensional array\nuse ravel"
        )
    n = bins.shape[0]
    if n == 0:
        return full(x.shape, 0, _INT)
    side = "right" if not right else "left"
    rising = searchsorted(bins, x, side)
    if n == 1:
        return rising
    falling = elementwise.sub(n, searchsorted(bins[::-1], x, side))
    return choose_by(greater_equal(bins[-1], bins[0]), rising, falling)


def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Count the occurrences of each non-negative integer; under a trace, `length` is required.

    Integers of `length` and more are not counted. `weights` are added instead of ones. The result
    has at least `minlength` elements.

    Example:
        >>> jnp.bincount(jnp.array([0, 2, 2]))
        Array([1, 0, 2], dtype=int32)
        >>> kiln.jit(lambda x: jnp.bincount(x, length=4))(jnp.array([0, 2, 2]))
        Array([1, 0, 2, 0], dtype=int32)
    """
    x = one("bincount", x)
    if x.dtype == np.bool_:
        x = cast(x, _INT)
    if not dtypes.issubdtype(x.dtype, np.integer):
        raise TypeError(
            three_lines(
                f"bincount of {x.aval} at {current_source()}",
                f"x argument to bincount must have an integer type; got {x.dtype}",
                "convert first: x.astype(int)",
            )
        )
    if len(x.shape) != 1:
        raise ValueError(
            f"bincount of {x.aval} at {current_source()}\n"
            "only 1-dimensional input supported.\nuse ravel"
        )
    if length is None:
        value = concrete_number("bincount", "length", x)
        largest = int(np.max(value)) + 1 if x.shape[0] else 0
        length = max(int(minlength), largest)
    else:
        length = int(length)
    counted = (
        full(x.shape, 1, dtypes.default_int_dtype())
        if weights is None
        else one("bincount", weights)
    )
    if tuple(counted.shape) != tuple(x.shape):
        raise ValueError(
            f"bincount weights {counted.aval} at {current_source()}\n"
            "shape of weights must match shape of x\ngive one weight per element"
        )
    place = elementwise.max(x, constant(0, x))
    return sharded(
        added_at(full((length,), 0, counted.dtype), place, counted), out_sharding, "jnp.bincount"
    )


def added_at(base: Any, places: Any, values: Any, mode: GatherScatterMode = FILL_OR_DROP) -> Any:
    """Add values to a vector at positions; those out of bounds are dropped."""
    numbers = indexing.ScatterDimensionNumbers(
        update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )
    places = expand_dims(cast(places, _INT), (1,))
    return indexing.scatter_add(base, places, values, numbers, mode=mode)
