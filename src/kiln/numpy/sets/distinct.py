"""Arrays as sets: distinct elements, union, intersection, difference, membership.

The number of distinct elements depends on the values; under a trace it is given as `size`, and the
result is padded with `fill_value`.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, overload

import numpy as np

from kiln.api.jit import jit
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.concretization import refuse
from kiln.core.trace import Tracer
from kiln.numpy.creation.arrays import asarray, cast
from kiln.numpy.creation.filling import full
from kiln.numpy.elements.logic import choose_by, isnan, logical_and, logical_not, logical_or
from kiln.numpy.indexing.taking import nonzero, take
from kiln.numpy.promotion import broadcast_to, one
from kiln.numpy.reductions.cumulative import cumsum
from kiln.numpy.reductions.reductions import sum
from kiln.numpy.search import added_at
from kiln.numpy.shapes import canonical_axes, moveaxis, ravel
from kiln.ops.counting import iota
from kiln.ops.elements import elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.indexing.dimension_numbers import LEAVE_OUT
from kiln.ops.indexing.static_slicing import pad, slice_in_dim
from kiln.ops.reductions import sorting
from kiln.ops.shape import expand_dims, reshape

_INT = np.dtype(np.int32)
_BOOL = np.dtype(np.bool_)


@overload
def unique(
    ar: ArrayLike,
    return_index: Literal[False] = ...,
    return_inverse: Literal[False] = ...,
    return_counts: Literal[False] = ...,
    axis: int | None = ...,
    *,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: bool = ...,
) -> Array: ...


@overload
def unique(
    ar: ArrayLike,
    return_index: bool = ...,
    return_inverse: bool = ...,
    return_counts: bool = ...,
    axis: int | None = ...,
    *,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: bool = ...,
) -> Any: ...


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """Return the distinct elements (or slices along an axis), in order.

    The flags add the index of each one's first occurrence, the index of each element in the result,
    and the counts. Under a trace `size` must be given; the result is padded with `fill_value`, by
    default the smallest. `equal_nan` counts all nans as one element. The result is always sorted,
    whatever `sorted` says.

    Raises: ValueError if there are no elements, and no `fill_value` to pad with.
    Source: numpy.unique.
    Example:
        >>> jnp.unique(jnp.array([3, 1, 3]))
        Array([1, 3], dtype=int32)
    """
    ar = one("unique", ar)
    original = ar.shape
    rows, dim = _rows(ar, axis)
    if fill_value is not None and axis is not None:
        slice_shape = moveaxis(ar, axis, 0).shape[1:]
        fill_value = reshape(broadcast_to(asarray(fill_value), slice_shape), (1, rows.shape[1]))
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        found, values = _unique_of_nothing(rows, size, fill_value)
    else:
        found = unique_rows("unique", rows, equal_nan, size)
        values = _rows_at(rows, found.first, fill_value, found.count)
    if axis is None:
        values = ravel(values)
    else:
        moved = (dim, *(d for i, d in enumerate(original) if i != axis % len(original)))
        values = moveaxis(reshape(values, (values.shape[0], *moved[1:])), 0, axis)
    out = [values]
    dtype = dtypes.default_int_dtype()
    if return_index:
        out.append(cast(found.first, dtype))
    if return_inverse:
        inverse = cast(found.inverse, dtype)
        out.append(reshape(inverse, original) if axis is None else inverse)
    if return_counts:
        out.append(cast(found.counts, dtype))
    return out[0] if len(out) == 1 else tuple(out)


def _rows(ar: Any, axis: int | None) -> tuple[Any, Any]:
    """Return the items to compare as rows of a matrix, and their number."""
    if axis is None:
        return reshape(ar, (ar.size, 1)), ar.size
    (axis,) = canonical_axes("unique", axis, len(ar.shape))
    ar = moveaxis(ar, axis, 0)
    n = ar.shape[0]
    width = 1
    for d in ar.shape[1:]:
        width = width * d
    return reshape(ar, (n, width)), n


class Found(NamedTuple):
    """Distinct rows: where each occurs first, which one each row is, how often, how many."""

    first: Any
    inverse: Any
    counts: Any
    count: Any


def unique_rows(name: str, rows: Any, equal_nan: bool, size: int | None) -> Found:
    """Find the distinct rows of a matrix, in order; their number is `size` if that is given."""
    n = rows.shape[0]
    if n == 0:
        total = 0 if size is None else size
        nothing = full((total,), 0, _INT)
        return Found(nothing, full((0,), 0, _INT), nothing, full((), 0, _INT))
    order, new, inverse, count = _ordered(rows, equal_nan)
    total = known_count(name, count) if size is None else size
    starts = nonzero(new, size=total, fill_value=0)[0]
    counts = added_at(full((total,), 0, _INT), inverse, full((n,), 1, _INT), LEAVE_OUT)
    first = take(order, starts)
    return Found(first, inverse, counts, count)


@functools.partial(jit, static_argnames="equal_nan", inline=True)
def _ordered(rows: Any, equal_nan: bool) -> tuple[Any, Any, Any, Any]:
    """Return the order of rows, which are new in it, each row's number, and how many are new."""
    n = rows.shape[0]
    columns = [reshape(slice_in_dim(rows, i, i + 1, 1, 1), (n,)) for i in range(rows.shape[1])]
    if equal_nan and dtypes.issubdtype(rows.dtype, np.complexfloating):
        # Whichever part is nan: they are to be neighbors, behind all numbers.
        columns = [choose_by(isnan(x), constant(math.nan, x), x) for x in columns]
    order = sorting.sort((*columns, iota(_INT, n)), 0, num_keys=len(columns))[-1]
    new: Any = None
    for column in columns:
        ordered = take(column, order)
        differs = _differs(slice_in_dim(ordered, 1, n), slice_in_dim(ordered, 0, n - 1), equal_nan)
        new = differs if new is None else logical_or(new, differs)
    new = pad(new, np.bool_(True), [(1, 0, 0)])
    number = elementwise.sub(cumsum(cast(new, _INT)), np.int32(1))
    return order, new, _scattered(order, number, n), sum(new, dtype=_INT)


def _differs(x: Any, y: Any, equal_nan: bool) -> Any:
    differs = elementwise.ne(x, y)
    if equal_nan and dtypes.issubdtype(x.dtype, np.inexact):
        differs = logical_and(differs, logical_not(logical_and(isnan(x), isnan(y))))
    return differs


def _scattered(order: Any, values: Any, n: int) -> Any:
    """Return `values` scattered to the positions that a permutation gives."""
    return added_at(full((n,), 0, _INT), order, values)


def known_count(name: str, count: Any) -> int:
    """Return a number of elements that the result's shape depends on.

    Raises: ConcretizationTypeError mentioning `size` under a trace.
    """
    if isinstance(count, Tracer):
        value = count.concrete()
        if value is None:
            refuse(
                count,
                name,
                f"the number of elements that {name} returns depends on values: give it as the "
                f"argument `size` of kiln.numpy.{name}(..., size=...)",
            )
        count = value
    return int(count)


def _unique_of_nothing(rows: Any, size: int | None, fill_value: Any) -> tuple[Found, Any]:
    """Return what is distinct among rows without elements, and its values.

    All empty rows are one row, even if there are none. Only values are padded, with `fill_value`.
    """
    n, width = rows.shape
    if n == 0 and size and fill_value is None:
        raise ValueError(
            three_lines(
                f"unique of no elements with size={size} at {current_source()}",
                "for zero-sized input with nonzero size argument, fill_value must be specified",
                "give fill_value, or size=0",
            )
        )
    count = 1 if width == 0 else 0
    total = count if size is None or fill_value is None else size
    found = Found(
        full((count,), 0, _INT),
        full((n,), 0, _INT),
        full((min(count, n),), n, _INT),
        full((), count, _INT),
    )
    return found, full((total, width), 0 if fill_value is None else fill_value, rows.dtype)


def _rows_at(rows: Any, first: Any, fill_value: Any, count: Any) -> Any:
    values = take(rows, first, axis=0)
    missing = elementwise.ge(iota(_INT, first.shape[0]), count)
    missing = expand_dims(missing, (1,))
    if fill_value is None:
        return values
    return choose_by(missing, cast(asarray(fill_value), values.dtype), values)


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Array
    inverse_indices: Array


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueAll:
    """Return distinct elements, their first indices, the index of each element, and the counts.

    Under a trace `size` must be given: the result is cut, or padded with `fill_value`.

    Example:
        >>> found = jnp.unique_all(jnp.array([5, 3, 5]))
        >>> found.values, found.counts
        (Array([3, 5], dtype=int32), Array([1, 2], dtype=int32))
    """
    found = unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueAll(*found)


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueCounts:
    """Return distinct elements and their counts.

    Under a trace `size` must be given: the result is cut, or padded with `fill_value`.

    Example:
        >>> jnp.unique_counts(jnp.array([5, 3, 5])).counts
        Array([1, 2], dtype=int32)
    """
    found = unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueCounts(*found)


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueInverse:
    """Return distinct elements, and for each element its index among them.

    Under a trace `size` must be given: the result is cut, or padded with `fill_value`.

    Example:
        >>> jnp.unique_inverse(jnp.array([5, 3, 5])).inverse_indices
        Array([1, 0, 1], dtype=int32)
    """
    found = unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueInverse(*found)


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Return the distinct elements.

    Under a trace `size` must be given: the result is cut, or padded with `fill_value`.

    Example:
        >>> jnp.unique_values(jnp.array([5, 3, 5]))
        Array([3, 5], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)
