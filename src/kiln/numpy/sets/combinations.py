"""Sets of two arrays: unions, intersections, differences, membership."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from kiln.api.jit import jit
from kiln.base import dtypes
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.creation.arrays import asarray, cast
from kiln.numpy.creation.filling import full
from kiln.numpy.elements.logic import choose_by, equal, logical_and, logical_not, logical_or
from kiln.numpy.indexing.taking import nonzero, take
from kiln.numpy.manipulation.joining import concatenate
from kiln.numpy.promotion import one, promote_dtypes
from kiln.numpy.reductions.reductions import any as any_of
from kiln.numpy.reductions.reductions import sum
from kiln.numpy.search import searchsorted
from kiln.numpy.sets.distinct import Found, known_count, unique, unique_rows
from kiln.numpy.shapes import ravel
from kiln.ops.counting import iota
from kiln.ops.elements import elementwise
from kiln.ops.indexing.static_slicing import pad, slice_in_dim
from kiln.ops.reductions import sorting
from kiln.ops.shape import expand_dims, reshape

_INT = np.dtype(np.int32)
_BOOL = np.dtype(np.bool_)


def _flat_pair(name: str, ar1: Any, ar2: Any) -> tuple[Any, Any]:
    ar1, ar2 = promote_dtypes(one(name, ar1), one(name, ar2))
    return ravel(ar1), ravel(ar2)


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Return the distinct elements of both arrays, in order.

    Under a trace `size` must be given: the result is cut, or padded with `fill_value`.

    Example:
        >>> jnp.union1d(jnp.array([2, 1]), jnp.array([3, 2]))
        Array([1, 2, 3], dtype=int32)
        >>> jnp.union1d(jnp.array([2, 1]), jnp.array([3, 2]), size=4, fill_value=-1)
        Array([ 1,  2,  3, -1], dtype=int32)
    """
    return unique(concatenate(_flat_pair("union1d", ar1, ar2)), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Return the elements of `ar1` that are not in `ar2`.

    Under a trace `size` must be given: the result is cut, or padded with `fill_value`.

    Example:
        >>> jnp.setdiff1d(jnp.array([3, 1, 2]), jnp.array([2]))
        Array([1, 3], dtype=int32)
    """
    ar1, ar2 = one("setdiff1d", ar1), one("setdiff1d", ar2)
    ar1 = ravel(ar1)
    if not assume_unique:
        # Padding repeats the first element, so that it is dropped with it or not at all.
        found = unique_rows("setdiff1d", reshape(ar1, (ar1.shape[0], 1)), True, ar1.shape[0])
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
    `assume_unique` promises that `ar1` and `ar2` have no duplicates.

    Example:
        >>> jnp.intersect1d(jnp.array([3, 1, 2]), jnp.array([2, 3, 5]))
        Array([2, 3], dtype=int32)
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


def _firsts(name: str, x: Any, distinct: bool) -> Found:
    n = x.shape[0]
    if distinct:
        count = full((), n, _INT)
        return Found(iota(_INT, n), None, None, count)
    return unique_rows(name, reshape(x, (n, 1)), True, n)


def _real(found: Found) -> Any:
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
    `assume_unique` promises that `ar1` and `ar2` have no duplicates.

    Example:
        >>> jnp.setxor1d(jnp.array([1, 2]), jnp.array([2, 3]))
        Array([1, 3], dtype=int32)
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
    """Tell which elements are among `test_elements`.

    `invert` negates the result. `assume_unique` has no effect. With the `method` "compare_all" all
    pairs are compared; results are the same.

    Example:
        >>> jnp.isin(jnp.array([1, 2, 3]), jnp.array([3, 1]))
        Array([ True, False,  True], dtype=bool)
    """
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
