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
from kiln.numpy.elements.logic import choose_by, equal, isnan, logical_and, logical_not, logical_or
from kiln.numpy.indexing.taking import nonzero, take
from kiln.numpy.manipulation.joining import concatenate
from kiln.numpy.promotion import broadcast_to, one, promote_dtypes
from kiln.numpy.reductions.cumulative import cumsum
from kiln.numpy.reductions.reductions import any as any_of
from kiln.numpy.reductions.reductions import sum
from kiln.numpy.search import added_at, searchsorted
from kiln.numpy.shapes import canonical_axes, moveaxis, ravel
from kiln.ops.elements import elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.indexing.dimension_numbers import LEAVE_OUT
from kiln.ops.indexing.static_slicing import pad, slice_in_dim
from kiln.ops.reductions import sorting
from kiln.ops.shape import expand_dims, iota, reshape

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
    default the smallest.

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
        found = _unique_rows("unique", rows, equal_nan, size)
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


class _Found(NamedTuple):
    first: Any
    inverse: Any
    counts: Any
    count: Any


def _unique_rows(name: str, rows: Any, equal_nan: bool, size: int | None) -> _Found:
    n = rows.shape[0]
    if n == 0:
        total = 0 if size is None else size
        nothing = full((total,), 0, _INT)
        return _Found(nothing, full((0,), 0, _INT), nothing, full((), 0, _INT))
    order, new, inverse, count = _ordered(rows, equal_nan)
    total = known_count(name, count) if size is None else size
    starts = nonzero(new, size=total, fill_value=0)[0]
    counts = added_at(full((total,), 0, _INT), inverse, full((n,), 1, _INT), LEAVE_OUT)
    first = take(order, starts)
    return _Found(first, inverse, counts, count)


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


def _unique_of_nothing(rows: Any, size: int | None, fill_value: Any) -> tuple[_Found, Any]:
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
    found = _Found(
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
    """Return distinct elements, their first indices, the index of each element, and the counts."""
    found = unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueAll(*found)


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueCounts:
    """Return distinct elements and their counts."""
    found = unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueCounts(*found)


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueInverse:
    """Return distinct elements, and for each element its index among them."""
    found = unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueInverse(*found)


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Return the distinct elements."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def _flat_pair(name: str, ar1: Any, ar2: Any) -> tuple[Any, Any]:
    ar1, ar2 = promote_dtypes(one(name, ar1), one(name, ar2))
    return ravel(ar1), ravel(ar2)


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Return the distinct elements of both arrays, in order."""
    return unique(concatenate(_flat_pair("union1d", ar1, ar2)), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Return the elements of `ar1` that are not in `ar2`."""
    ar1, ar2 = one("setdiff1d", ar1), one("setdiff1d", ar2)
    ar1 = ravel(ar1)
    if not assume_unique:
        # Padding repeats the first element, so that it is dropped with it or not at all.
        found = _unique_rows("setdiff1d", reshape(ar1, (ar1.shape[0], 1)), True, ar1.shape[0])
        real = elementwise.lt(iota(_INT, ar1.shape[0]), found.count)
        ar1 = take(ar1, found.first) if ar1.shape[0] else ar1
        wanted = logical_and(real, logical_not(isin(ar1, ar2)))
    else:
        wanted = logical_not(isin(ar1, ar2))
    return chosen("setdiff1d", ar1, wanted, size, 0 if fill_value is None else fill_value)


def chosen(name: str, x: Any, wanted: Any, size: int | None, fill_value: Any) -> Any:
    """Return the elements of a vector for which a condition holds, padded to `size`.

    Without `fill_value` the first of them is repeated, or that of the vector if there is none.
    """
    count = sum(wanted, dtype=_INT)
    total = known_count(name, count) if size is None else size
    if x.shape[0] == 0:
        return full((total,), 0 if fill_value is None else fill_value, x.dtype)
    values = take(x, nonzero(wanted, size=total, fill_value=0)[0])
    if fill_value is None:
        return take(
            values,
            elementwise.mul(
                iota(_INT, total), cast(elementwise.lt(iota(_INT, total), count), _INT)
            ),
        )
    missing = elementwise.ge(iota(_INT, total), count)
    return choose_by(missing, cast(asarray(fill_value), x.dtype), values)


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Return the elements common to both arrays, in order; with the flag, also their indices.

    They are padded to `size` with `fill_value`, by default the smallest, or 0 if there is none.
    """
    ar1, ar2 = _flat_pair("intersect1d", ar1, ar2)
    first, second = (_firsts("intersect1d", x, assume_unique) for x in (ar1, ar2))
    both = concatenate([take(ar1, first.first), take(ar2, second.first)])
    real = concatenate([_real(first), _real(second)])
    places = concatenate([first.first, second.first])
    n = both.shape[0]
    hidden = cast(logical_not(real), _INT)
    order = sorting.sort((hidden, both, iota(_INT, n)), 0, num_keys=2)[-1]
    ordered, kept = take(both, order), take(real, order)
    # Whether the next is the same: the last has none.
    same = elementwise.eq(ordered, _following(ordered))
    same = logical_and(same, logical_and(kept, _following(kept)))
    out = _padded("intersect1d", ordered, same, size, fill_value)
    if not return_indices:
        return out
    total = out.shape[0]
    at1 = chosen("intersect1d", take(places, order), same, total, ar1.shape[0])
    at2 = chosen("intersect1d", take(places, _following(order)), same, total, ar2.shape[0])
    dtype = dtypes.default_int_dtype()
    return out, cast(at1, dtype), cast(at2, dtype)


def _following(x: Any) -> Any:
    """Return the element after each, and a zero after the last."""
    n = x.shape[0]
    return pad(slice_in_dim(x, min(n, 1), n), x.dtype.type(0), [(0, min(n, 1), 0)])


def _padded(name: str, x: Any, wanted: Any, size: int | None, fill_value: Any) -> Any:
    """Return chosen elements, padded by default with the first of them, or 0 if there is none."""
    found = chosen(name, x, wanted, size, fill_value)
    if fill_value is not None or x.shape[0] <= 1:
        return found
    return choose_by(any_of(wanted), found, np.zeros((), found.dtype))


def _firsts(name: str, x: Any, distinct: bool) -> _Found:
    n = x.shape[0]
    if distinct:
        count = full((), n, _INT)
        return _Found(iota(_INT, n), None, None, count)
    return _unique_rows(name, reshape(x, (n, 1)), True, n)


def _real(found: _Found) -> Any:
    return elementwise.lt(iota(_INT, found.first.shape[0]), found.count)


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Return the elements that are in only one of the arrays, in order.

    They are padded to `size` with `fill_value`, by default the smallest, or 0 if there is none.
    """
    ar1, ar2 = _flat_pair("setxor1d", ar1, ar2)
    first, second = (_firsts("setxor1d", x, assume_unique) for x in (ar1, ar2))
    both = concatenate([take(ar1, first.first), take(ar2, second.first)])
    real = concatenate([_real(first), _real(second)])
    hidden = cast(logical_not(real), _INT)
    n = both.shape[0]
    order = sorting.sort((hidden, both, iota(_INT, n)), 0, num_keys=2)[-1]
    ordered, kept = take(both, order), take(real, order)
    after = logical_and(elementwise.eq(ordered, _following(ordered)), _following(kept))
    before = slice_in_dim(pad(after, np.bool_(False), [(1, 0, 0)]), 0, n)
    single = logical_and(kept, logical_not(logical_or(before, after)))
    return _padded("setxor1d", ordered, single, size, fill_value)


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Tell which elements are among `test_elements`."""
    element, tests = promote_dtypes(one("isin", element), one("isin", test_elements))
    found = _among(element, ravel(tests), with_all=method == "compare_all")
    return logical_not(found) if invert else found


@functools.partial(jit, static_argnames="with_all", inline=True)
def _among(element: Any, tests: Any, with_all: bool) -> Any:
    if tests.shape[0] == 0:
        return full(element.shape, False, _BOOL)
    if with_all or tests.shape[0] <= 128:
        column = expand_dims(element, (len(element.shape),))
        row = expand_dims(tests, range(len(element.shape)))
        return any_of(equal(column, row), -1)
    ordered = sorting.sort(tests)
    place = searchsorted(ordered, element)
    return elementwise.eq(take(ordered, place, mode="clip"), element)
