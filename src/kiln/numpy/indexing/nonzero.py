"""Finding nonzero elements: functions whose result size is the number of selected elements.

While a program is traced that number is unknown, so these functions take it as `size`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.arrays.array import from_host, numbers_of
from kiln.core.concretization import refuse
from kiln.core.trace import Tracer, aval_of, is_typed
from kiln.ir.sizes.size import Dim, Size
from kiln.numpy.creation.arrays import asarray
from kiln.numpy.creation.filling import full
from kiln.numpy.indexing.index_expressions import along
from kiln.numpy.indexing.subscripts import getitem, read
from kiln.numpy.indexing.updates import IndexUpdate
from kiln.numpy.promotion import one, promote_dtypes
from kiln.ops.counting import iota
from kiln.ops.elements import elementwise
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.indexing.dimension_numbers import LEAVE_OUT
from kiln.ops.indexing.slicing import concatenate, slice_in_dim
from kiln.ops.reductions import cumulative
from kiln.ops.shape import full as filled_with
from kiln.ops.shape import reshape, transpose, zeros_of
from kiln.ops.size_value import as_index

_INT32 = np.dtype(np.int32)


def nonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | Sequence[Any] | None = None
) -> tuple[Array, ...]:
    """Return the indices of the nonzero elements, one array per axis.

    With `size`, return that many, padded with `fill_value` (one number, or one per axis).

    Raises: ConcretizationTypeError for a traced array without `size`.
    Example:
        >>> jnp.nonzero(jnp.array([0, 5, 6]))
        (Array([1, 2], dtype=int32),)
        >>> kiln.jit(lambda x: jnp.nonzero(x, size=3, fill_value=-1))(jnp.array([0, 5, 6]))
        (Array([ 1,  2, -1], dtype=int32),)
    """
    return indices_of("nonzero", a, size, fill_value)


def indices_of(name: str, a: Any, size: Any, fill_value: Any) -> tuple[Any, ...]:
    """Implement `nonzero` for the function called `name`."""
    a = one(name, a)
    shape = aval_of(a).shape
    if not shape:
        raise ValueError(
            three_lines(
                f"{name}: array {aval_of(a)} at {current_source()}",
                f"Calling {name} on 0d arrays is not allowed.",
                "give the array an axis: kiln.numpy.atleast_1d(x)",
            )
        )
    value = a.concrete() if isinstance(a, Tracer) else a
    wanted = dtypes.default_int_dtype()
    if size is None:
        if value is None:
            refuse(
                a,
                name,
                f"the size of the result of {name} must be known while tracing: pass it as "
                f"size=..., as in kiln.numpy.{name}(x, size=n)",
            )
        return tuple(from_host(i.astype(wanted)) for i in np.nonzero(numbers_of(value, name)))
    count = size if type(size) is Size else operator.index(size)
    if type(count) is int and count < 0:
        raise ValueError(
            three_lines(
                f"{name}: size {count} at {current_source()}",
                "size must not be negative",
                "pass the number of indices that the result shall have",
            )
        )
    fills = _fills(name, fill_value, len(shape))
    total: Any = math.prod(shape)
    if total == 0 or count == 0:
        return tuple(_padding(count, fill, wanted) for fill in fills)
    places = _first_places(a, count, total)
    missing = elementwise.eq(places, as_index(total))
    out = []
    stride = total
    for dim, fill in zip(shape, fills, strict=True):
        stride = stride // dim
        index = elementwise.rem(elementwise.div(places, as_index(stride)), as_index(dim))
        if _is_inexact(fill):
            padding, index = promote_dtypes(one(name, asarray(fill)), index)
            out.append(elementwise.select(missing, padding, index))
            continue
        fill = convert_element_type(fill, _INT32) if is_typed(fill) else np.int32(fill)
        out.append(convert_element_type(elementwise.select(missing, fill, index), wanted))
    return tuple(out)


def _is_inexact(fill: Any) -> bool:
    return type(fill) is not int and dtypes.issubdtype(aval_of(asarray(fill)).dtype, np.inexact)


def _padding(count: Dim, fill: Any, wanted: Any) -> Any:
    padding = asarray(full((count,), fill))
    return padding if _is_inexact(fill) else convert_element_type(padding, wanted)


def _fills(name: str, fill_value: Any, ndim: int) -> tuple[Any, ...]:
    if fill_value is None:
        return (0,) * ndim
    if isinstance(fill_value, tuple):
        fits, found = len(fill_value) == ndim, fill_value
    else:
        fits, found = not np.shape(fill_value), (fill_value,) * ndim
    if not fits:
        raise ValueError(
            three_lines(
                f"{name}: fill_value {fill_value!r:.60} at {current_source()}",
                f"fill_value must be a scalar or a tuple of length {ndim}",
                "pass one number, or one for each axis",
            )
        )
    return found


def _first_places(a: Any, count: Dim, total: Dim) -> Any:
    """Return the first `count` nonzero positions in row-major order, padded with `total`."""
    aval = aval_of(a)
    flat = reshape(a, (total,))
    mask = flat if aval.dtype == np.bool_ else elementwise.ne(flat, zeros_of(aval_of(flat)))
    order = elementwise.sub(cumulative.cumsum(convert_element_type(mask, _INT32), 0), np.int32(1))
    target = elementwise.select(mask, order, filled_with((total,), count, _INT32))
    found = filled_with((count,), total, _INT32)
    return IndexUpdate(found, target).set(iota(_INT32, total), unique_indices=True, mode=LEAVE_OUT)


def flatnonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Return the indices of the nonzero elements in the flattened array.

    Example:
        >>> jnp.flatnonzero(jnp.array([0, 3, 0, 5]))
        Array([1, 3], dtype=int32)
        >>> kiln.jit(lambda x: jnp.flatnonzero(x, size=3, fill_value=-1))(jnp.array([0, 3, 0, 5]))
        Array([ 1,  3, -1], dtype=int32)
    """
    a = one("flatnonzero", a)
    return indices_of("flatnonzero", reshape(a, (aval_of(a).size,)), size, fill_value)[0]


def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | Sequence[Any] | None = None
) -> Array:
    """Return the indices of the nonzero elements, one row per element.

    In `jit` the number of rows is `size`: missing ones are `fill_value`, surplus ones are dropped.

    Example:
        >>> jnp.argwhere(jnp.array([[0, 1], [2, 0]]))
        Array([[0, 1],
               [1, 0]], dtype=int32)
        >>> jnp.argwhere(jnp.array([0, 1, 0]), size=2, fill_value=-1)
        Array([[ 1],
               [-1]], dtype=int32)
    """
    a = one("argwhere", a)
    aval = aval_of(a)
    found = indices_of("argwhere", a if aval.shape else reshape(a, (1,)), size, fill_value)
    rows = concatenate([reshape(i, (1, *aval_of(i).shape)) for i in found], 0)
    out = transpose(rows, (1, 0))
    return out if aval.shape else slice_in_dim(out, 0, 0, 1, 1)


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Array:
    """Return the elements of the flattened array where the flattened condition holds.

    Under a trace `size` must be given: surplus elements are dropped, missing ones are `fill_value`.

    Example:
        >>> jnp.extract(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
        Array([1, 3], dtype=int32)
    """
    condition, arr = one("extract", condition), one("extract", arr)
    flat = reshape(condition, (aval_of(condition).size,))
    return compress(flat, reshape(arr, (aval_of(arr).size,)), 0, size=size, fill_value=fill_value)


def compress(
    condition: ArrayLike | Sequence[Any],
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """Return the slices along an axis (the flattened array without one) where a condition holds.

    Under a trace `size` must be given: surplus elements are dropped, missing ones are `fill_value`.

    Raises: ValueError if the condition does not have exactly one axis.
    Example:
        >>> jnp.compress(jnp.array([True, False, True]), jnp.array([[1, 2, 3], [4, 5, 6]]), axis=1)
        Array([[1, 3],
               [4, 6]], dtype=int32)
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to kiln.numpy.compress is not supported.")
    condition = one("compress", asarray(condition))
    a = one("compress", a)
    if aval_of(condition).ndim != 1:
        raise ValueError(
            three_lines(
                f"compress: condition {aval_of(condition)} at {current_source()}",
                "condition must be a 1D array",
                "use extract for conditions with the shape of the array",
            )
        )
    if axis is None:
        a, axis = reshape(a, (aval_of(a).size,)), 0
    aval = aval_of(a)
    axis = axis + aval.ndim if axis < 0 else axis
    length = aval.shape[axis]
    if aval_of(condition).shape[0] > length:
        condition = slice_in_dim(condition, 0, length)
    dims = (slice(None),) * axis
    (places,) = indices_of("compress", condition, size, length)
    if size is None:
        return getitem(a, (*dims, places))
    if length == 0:
        return asarray(
            full((*aval.shape[:axis], size, *aval.shape[axis + 1 :]), fill_value, aval.dtype)
        )
    return read(a, along(aval.shape, axis, places), mode=LEAVE_OUT, fill_value=fill_value)


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: int = 0, *, size: int | None = None
) -> tuple[Array, ...]:
    """Return the indices of an (n, n) array that `mask_func(ones, k)` keeps.

    Example:
        >>> rows, columns = jnp.mask_indices(3, jnp.triu, 1)
        >>> rows, columns
        (Array([0, 0, 1], dtype=int32), Array([1, 2, 2], dtype=int32))
    """
    dtype = dtypes.default_int_dtype()
    return indices_of("mask_indices", mask_func(full((n, n), 1, dtype), k), size, None)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """Return a copy with the elements where the mask holds replaced by the values, in order.

    Raises: ValueError unless `inplace=False`: arrays are immutable.
    Example:
        >>> jnp.place(jnp.arange(4), jnp.array([0, 1, 0, 1]) > 0, jnp.array([7, 8]), inplace=False)
        Array([0, 7, 2, 8], dtype=int32)
    """
    if inplace:
        raise immutable("place")
    arr, mask, vals = one("place", arr), one("place", mask), one("place", asarray(vals))
    aval, count = aval_of(arr), aval_of(vals).size
    total = aval.size
    if total == 0:
        return arr
    if count == 0:
        raise ValueError(
            three_lines(
                f"place: values {aval_of(vals)} at {current_source()}",
                "Cannot place values from an empty array",
                "pass at least one value",
            )
        )
    flat = reshape(mask, (total,))
    holds = (
        flat if aval_of(mask).dtype == np.bool_ else elementwise.ne(flat, zeros_of(aval_of(flat)))
    )
    order = elementwise.sub(cumulative.cumsum(convert_element_type(holds, _INT32), 0), np.int32(1))
    wanted = elementwise.rem(elementwise.max(order, np.int32(0)), np.int32(count))
    values = getitem(convert_element_type(reshape(vals, (count,)), aval.dtype), wanted)
    return reshape(elementwise.select(holds, values, reshape(arr, (total,))), aval.shape)


def immutable(name: str) -> ValueError:
    """Build the error for requesting an update in place."""
    return ValueError(
        three_lines(
            f"{name}(..., inplace=True) at {current_source()}",
            f"kiln.numpy.{name} cannot modify arrays in-place, because arrays are immutable",
            "Pass inplace=False to instead return an updated array.",
        )
    )
