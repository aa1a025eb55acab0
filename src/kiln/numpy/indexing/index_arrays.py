"""Arrays of indices: coordinates and flat indices, diagonals, triangles, grids."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike, ShapeLike
from kiln.core.arrays.array import from_host, host_value
from kiln.core.concretization import refuse
from kiln.core.trace import Tracer, aval_of
from kiln.ir.sizes.size import Dim, is_constant, maximum
from kiln.numpy.creation.arrays import asarray
from kiln.numpy.indexing.index_expressions import joint_shape
from kiln.numpy.indexing.nonzero import nonzero
from kiln.numpy.promotion import broadcast_to, one, shape_of
from kiln.ops.counting import broadcasted_iota, iota
from kiln.ops.elements import elementwise
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.indexing.slicing import from_end
from kiln.ops.shape import full, reshape
from kiln.ops.size_value import as_index

_INT32 = np.dtype(np.int32)


def integers(name: str, indices: Any) -> Any:
    """Return indices with an integer dtype.

    Raises: ValueError for numbers that are not integers.
    """
    dtype = aval_of(indices).dtype
    if dtype == np.bool_:
        return convert_element_type(indices, _INT32)
    if not dtypes.issubdtype(dtype, np.integer):
        raise ValueError(
            three_lines(
                f"{name}: indices {aval_of(indices)} at {current_source()}",
                "indices must have an integer type",
                "convert them first: indices.astype('int32')",
            )
        )
    return indices


def modulo(index: Any, size: Dim) -> Any:
    """Return the remainder with the sign of the size, which is positive."""
    index = convert_element_type(index, _INT32)
    divisor = as_index(maximum(size, 1))
    rest = elementwise.rem(index, divisor)
    return elementwise.select(
        elementwise.lt(rest, np.int32(0)), elementwise.add(rest, divisor), rest
    )


def in_range(name: str, index: Any, size: int, mode: str, wrong: str) -> Any:
    """Return indices moved into range as `mode` says, or checked; `ignore` leaves them."""
    index = integers(name, index)
    if mode == "ignore":
        return index
    if mode == "wrap":
        return modulo(index, size)
    if mode == "clip":
        return elementwise.clamp(0, index, size - 1)
    if mode != "raise":
        raise ValueError(
            three_lines(
                f"{name}(..., mode={mode!r}) at {current_source()}",
                "there is no such mode",
                "use 'raise', 'wrap', 'clip' or 'ignore'",
            )
        )
    value = index.concrete() if isinstance(index, Tracer) else index
    if value is None:
        refuse(index, name, "Use mode='wrap' or mode='clip' instead of mode='raise'")
    host = host_value(value)
    if ((host < 0) | (host >= size)).any():
        raise ValueError(
            three_lines(
                f"{name}: indices {aval_of(index)} into {size} at {current_source()}",
                wrong,
                f"use numbers from 0 to {size - 1}, or mode='wrap' or 'clip'",
            )
        )
    return index


def unravel_index(indices: ArrayLike, shape: ShapeLike) -> tuple[Array, ...]:
    """Return the coordinates of flat indices.

    NumPy raises IndexError out of bounds.

    Negative indices count from the end; indices out of bounds are clipped. The sizes may be traced.

    Example:
        >>> jnp.unravel_index(jnp.array([4, 1]), (2, 3))
        (Array([1, 0], dtype=int32), Array([1, 1], dtype=int32))
    """
    flat = asarray(indices)
    if not dtypes.issubdtype(aval_of(flat).dtype, np.integer):
        raise TypeError(
            three_lines(
                f"unravel_index: indices {aval_of(flat)} at {current_source()}",
                "indices must have an integer type",
                "convert them first: indices.astype('int32')",
            )
        )
    given: Any = shape
    if isinstance(given, Tracer):
        given = tuple(given) if aval_of(given).shape else (given,)
    if isinstance(given, (tuple, list)) and any(isinstance(size, Tracer) for size in given):
        return _unraveled(flat, given)
    sizes = _sizes(shape)
    total = math.prod(sizes)
    flat = elementwise.clamp(0, from_end(flat, total), total - 1)
    out: list[Any] = []
    for size in reversed(sizes):
        size = elementwise.constant(size, flat)
        out.append(elementwise.rem(flat, size))
        flat = elementwise.div(flat, size)
    return tuple(reversed(out))


def _unraveled(flat: Any, shape: Any) -> tuple[Array, ...]:
    """Return the coordinates of flat indices in a shape that is traced."""
    dtype = aval_of(flat).dtype
    wide = np.dtype(np.int64 if dtypes.bit_width(dtype) == 64 else np.int32)
    at = convert_element_type(flat, wide)
    sizes = [convert_element_type(size, wide) for size in shape]
    total: Any = functools.reduce(elementwise.mul, sizes, wide.type(1))
    at = elementwise.select(elementwise.lt(at, wide.type(0)), elementwise.add(at, total), at)
    at = elementwise.clamp(wide.type(0), at, elementwise.sub(total, wide.type(1)))
    out: list[Any] = []
    for size in reversed(sizes):
        out.append(convert_element_type(elementwise.rem(at, size), dtype))
        at = elementwise.div(at, size)
    return tuple(reversed(out))


def _sizes(shape: Any) -> list[int]:
    if hasattr(shape, "__index__"):
        return [operator.index(shape)]
    return [operator.index(size) for size in shape]


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return the flat indices of coordinates.

    Raises: with mode 'raise', ValueError for coordinates out of bounds, ConcretizationTypeError if
        they are traced.
    Example:
        >>> jnp.ravel_multi_index((jnp.array([0, 1]), jnp.array([2, 0])), (2, 3))
        Array([2, 3], dtype=int32)
    """
    sizes = _sizes(dims)
    if len(multi_index) != len(sizes):
        raise ValueError(
            three_lines(
                f"ravel_multi_index: {len(multi_index)} coordinates for dims {tuple(sizes)} "
                f"at {current_source()}",
                f"len(multi_index)={len(multi_index)} != len(dims)={len(sizes)}",
                "pass one array of coordinates for each axis",
            )
        )
    if order not in ("C", "F"):
        raise ValueError(
            three_lines(
                f"ravel_multi_index(..., order={order!r}) at {current_source()}",
                "there is no such order",
                "use 'C' or 'F'",
            )
        )
    given = [one("ravel_multi_index", index) for index in multi_index]
    wanted = (
        _flat_dtype(given, sizes)
        if dtype is None
        else dtypes.check_user_dtype(dtype, "ravel_multi_index")
    )
    total: Any = None
    stride = 1
    pairs = list(zip(given, sizes, strict=True))
    for index, size in reversed(pairs) if order == "C" else pairs:
        place = in_range(
            "ravel_multi_index", index, size, mode, "invalid entry in coordinates array"
        )
        part = elementwise.mul(convert_element_type(place, wanted), wanted.type(stride))
        if total is not None:
            common = joint_shape([shape_of(total), shape_of(part)])
            part = elementwise.add(broadcast_to(total, common), broadcast_to(part, common))
        total = part
        stride *= size
    return total


def _flat_dtype(indices: Sequence[Any], sizes: Sequence[int]) -> Any:
    found = dtypes.lattice_result_type(0, *indices)[0]
    if dtypes.issubdtype(found, np.integer) and math.prod(sizes) - 1 > np.iinfo(found).max:
        raise ValueError(
            three_lines(
                f"ravel_multi_index: {', '.join(str(aval_of(i)) for i in indices)} into "
                f"{tuple(sizes)} at {current_source()}",
                f"dtype={found} not large enough to hold flattened index for dims={tuple(sizes)}.",
                "pass a wider one: dtype=...",
            )
        )
    return found if dtypes.issubdtype(found, np.integer) else dtypes.default_int_dtype()


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the indices of the diagonal of an array with `ndim` axes of size n.

    Example:
        >>> jnp.zeros((2, 2)).at[jnp.diag_indices(2)].set(5.0)
        Array([[5., 0.],
               [0., 5.]], dtype=float32)
    """
    n, ndim = operator.index(n), operator.index(ndim)
    for name, value in (("n", n), ("ndim", ndim)):
        if value < 0:
            raise ValueError(
                three_lines(
                    f"diag_indices({n}, {ndim}) at {current_source()}",
                    f"{name} argument to diag_indices must be nonnegative, got {value}",
                    "pass a size and a number of axes",
                )
            )
    return (iota(dtypes.default_int_dtype(), n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Return the indices of the diagonal of an array whose axes have equal sizes.

    Example:
        >>> x = jnp.arange(4).reshape(2, 2)
        >>> x[jnp.diag_indices_from(x)]
        Array([0, 3], dtype=int32)
    """
    shape = aval_of(one("diag_indices_from", arr)).shape
    if len(shape) < 2:
        raise not_square("diag_indices_from", shape, "input array must be at least 2-d")
    if len(set(shape)) != 1:
        raise not_square(
            "diag_indices_from", shape, "All dimensions of input must be of equal length"
        )
    return diag_indices(shape[0], len(shape))  # type: ignore[arg-type]


def not_square(name: str, shape: Sequence[Dim], wrong: str) -> ValueError:
    """Build the error for an array without a diagonal."""
    return ValueError(
        three_lines(
            f"{name}: array of shape {tuple(shape)} at {current_source()}",
            wrong,
            "pass an array with two or more axes of one size",
        )
    )


def _triangle(found: tuple[np.ndarray, ...]) -> tuple[Any, Any]:
    rows, columns = found
    dtype = dtypes.default_int_dtype()
    return from_host(rows.astype(dtype)), from_host(columns.astype(dtype))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the indices of the lower triangle of an (n, m) array, up to the k-th diagonal.

    Example:
        >>> rows, columns = jnp.tril_indices(2)
        >>> rows, columns
        (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    if not is_constant((n, k, 0 if m is None else m)):
        return _lower_or_upper(n, k, n if m is None else m, lower=True)
    return _triangle(np.tril_indices(operator.index(n), operator.index(k), m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the indices of the upper triangle of an (n, m) array, from the k-th diagonal on.

    Example:
        >>> jnp.arange(9).reshape(3, 3)[jnp.triu_indices(3, k=1)]
        Array([1, 2, 5], dtype=int32)
    """
    if not is_constant((n, k, 0 if m is None else m)):
        return _lower_or_upper(n, k, n if m is None else m, lower=False)
    return _triangle(np.triu_indices(operator.index(n), operator.index(k), m))


def _lower_or_upper(rows: Dim, k: Dim, columns: Dim, *, lower: bool) -> Any:
    """Return the indices of a triangle, where named sizes are among these."""
    dtype = dtypes.default_int_dtype()
    i, j = (broadcasted_iota(dtype, (rows, columns), axis) for axis in (0, 1))
    last = k if lower else k - 1
    is_lower = elementwise.le(elementwise.sub(j, i), full((), last, dtype))
    # Of row r, min(max(r + last + 1, 0), columns) elements are at or below the diagonal.
    count = _sum_of_first(rows + last, columns) - _sum_of_first(last, columns)
    if lower:
        return nonzero(is_lower, size=count)
    return nonzero(elementwise.bitwise_not(is_lower), size=rows * columns - count)


def _sum_of_first(count: Dim, most: Dim) -> Dim:
    """Return 1 + 2 + ... of `count` numbers, those above `most` as `most`; 0 if there are none."""
    all_of_them, too_many = maximum(count, 0), maximum(count - most, 0)
    return (all_of_them * (all_of_them + 1) - too_many * (too_many + 1)) // 2


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return the indices of the lower triangle of an array.

    Example:
        >>> x = jnp.arange(4).reshape(2, 2)
        >>> x[jnp.tril_indices_from(x)]
        Array([0, 2, 3], dtype=int32)
    """
    n, m = _matrix_shape("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return the indices of the upper triangle of an array.

    Example:
        >>> x = jnp.arange(4).reshape(2, 2)
        >>> x[jnp.triu_indices_from(x)]
        Array([0, 1, 3], dtype=int32)
    """
    n, m = _matrix_shape("triu_indices_from", arr)
    return triu_indices(n, k, m)


def _matrix_shape(name: str, arr: Any) -> tuple[int, int]:
    shape = tuple(arr.shape) if hasattr(arr, "shape") else aval_of(one(name, arr)).shape
    if len(shape) != 2:
        raise ValueError(
            three_lines(
                f"{name}: array of shape {shape} at {current_source()}",
                "Only 2-D inputs are accepted",
                "pass a matrix",
            )
        )
    return shape  # type: ignore[return-value]


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Return arrays that index the grid of all combinations of the given indices.

    Example:
        >>> jnp.arange(9).reshape(3, 3)[jnp.ix_(jnp.array([0, 2]), jnp.array([1, 2]))]
        Array([[1, 2],
               [7, 8]], dtype=int32)
    """
    found = [one("ix", arg) for arg in args]
    out = []
    for i, x in enumerate(found):
        aval = aval_of(x)
        if aval.ndim != 1:
            raise ValueError(
                three_lines(
                    f"ix_: argument {i} is {aval} at {current_source()}",
                    f"Arguments to kiln.numpy.ix_ must be 1-dimensional, got shape {aval.shape}",
                    "pass lists of indices as arrays with one axis",
                )
            )
        if aval.dtype == np.bool_:
            (x,) = nonzero(x)
        shape: list[Dim] = [1] * len(found)
        shape[i] = aval_of(x).shape[0]
        out.append(reshape(x, shape))
    return tuple(out)
