"""Structured matrices: identity, triangles, diagonals, Vandermonde."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.trace import aval_of
from kiln.execution.eager_plans import eager
from kiln.ir.sizes.size import Dim, Size, minimum
from kiln.numpy.creation.arrays import asarray, canonical_shape, cast
from kiln.numpy.creation.filling import zeros
from kiln.numpy.elements.arithmetic import refuse_out
from kiln.numpy.elements.logic import choose_by
from kiln.numpy.promotion import lifted, operands, shape_of, summing_dtype
from kiln.ops.counting import broadcasted_iota, iota
from kiln.ops.elements import elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.indexing.static_slicing import pad, slice_in_dim
from kiln.ops.shape import broadcast_in_dim, canonical_axis, reduce_sum, reshape, transpose
from kiln.ops.sharding import put

_INT = np.dtype(np.int32)
_FARTHEST = 2**30


def below(shape: tuple[Dim, ...], k: Any) -> Any:
    """Return bools of a matrix shape: True on and below the k-th diagonal."""
    rows, columns = (broadcasted_iota(_INT, shape, axis) for axis in (0, 1))
    return elementwise.ge(elementwise.add(rows, _near(k)), columns)


def on_diagonal(shape: tuple[Dim, ...], k: Any) -> Any:
    """Return bools of a matrix shape: True on the k-th diagonal."""
    rows, columns = (broadcasted_iota(_INT, shape, axis) for axis in (0, 1))
    return elementwise.eq(elementwise.add(rows, _near(k)), columns)


def _near(k: Any) -> Any:
    # Further away there is no diagonal either, and the sum with a position still fits.
    return max(-_FARTHEST, min(k, _FARTHEST)) if isinstance(k, int) else k


@eager
def eye(
    N: Any, M: Any = None, k: Any = 0, dtype: DTypeLike | None = None, *, device: Any = None
) -> Array:
    """Return a matrix with ones on the k-th diagonal and zeros elsewhere.

    `k` counts diagonals: 0 is the main one, positive numbers are above it.

    Shapes: (N, M), or (N, N) without M.
    Example:
        >>> jnp.eye(2)
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
        >>> jnp.eye(2, 3, k=1)
        Array([[0., 1., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    wanted = _float_or("eye", dtype)
    shape = canonical_shape("eye", (N, N if M is None else M))
    return put(cast(on_diagonal(shape, _offset("eye", k)), wanted), device)


@eager
def identity(n: Any, dtype: DTypeLike | None = None) -> Array:
    """Return the identity matrix.

    Example:
        >>> jnp.identity(2)
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def _offset(name: str, k: Any) -> Any:
    if isinstance(k, (float, complex)):
        raise ValueError(
            three_lines(
                f"{name}(..., k={k!r}) at {current_source()}",
                f"k must be a scalar integer; got {k!r}",
                "pass the number of the diagonal",
            )
        )
    return k if isinstance(k, (int, Size)) else cast(asarray(k), _INT)


def _float_or(name: str, dtype: Any) -> Any:
    if dtype is None:
        return dtypes.default_float_dtype()
    return dtypes.check_user_dtype(dtype, name)


@eager
def tri(N: Any, M: Any = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Return a matrix with ones on and below the k-th diagonal.

    `k` counts diagonals: 0 is the main one, positive numbers are above it.

    Example:
        >>> jnp.tri(2, 3, dtype=int)
        Array([[1, 0, 0],
               [1, 1, 0]], dtype=int32)
    """
    shape = canonical_shape("tri", (N, N if M is None else M))
    return cast(below(shape, k), _float_or("tri", dtype))


@eager
def tril(m: ArrayLike, k: int = 0) -> Array:
    """Return a copy with the elements above the k-th diagonal set to zero.

    `k` counts diagonals: 0 is the main one, positive numbers are above it.

    Example:
        >>> jnp.tril(jnp.ones((2, 3), int))
        Array([[1, 0, 0],
               [1, 1, 0]], dtype=int32)
    """
    m, inside = _triangle("tril", m, k)
    return choose_by(inside, m, constant(0, m))


@eager
def triu(m: ArrayLike, k: int = 0) -> Array:
    """Return a copy with the elements below the k-th diagonal set to zero.

    `k` counts diagonals: 0 is the main one, positive numbers are above it.

    Example:
        >>> jnp.triu(jnp.ones((2, 3), int), k=1)
        Array([[0, 1, 1],
               [0, 0, 1]], dtype=int32)
    """
    m, inside = _triangle("triu", m, k - 1)
    return choose_by(inside, constant(0, m), m)


def _triangle(name: str, m: Any, k: int) -> tuple[Any, Any]:
    (m,) = operands(name, m)
    shape = shape_of(m)
    if len(shape) < 2:
        raise ValueError(
            three_lines(
                f"{name} of an array {aval_of(m)} at {current_source()}",
                f"Argument to jax.numpy.{name} must be at least 2D",
                "add an axis first: x[None, :]",
            )
        )
    return lifted(m), below(shape[-2:], k)


@eager
def diag(v: ArrayLike, k: int = 0) -> Array:
    """Return the k-th diagonal of a matrix, or the matrix with a vector on its k-th diagonal.

    Example:
        >>> jnp.diag(jnp.array([1, 2]))
        Array([[1, 0],
               [0, 2]], dtype=int32)
        >>> jnp.diag(jnp.array([[1, 2], [3, 4]]), k=1)
        Array([2], dtype=int32)
    """
    (v,) = operands("diag", v)
    rank = len(shape_of(v))
    if rank == 1:
        return _with_diagonal(v, k)
    if rank == 2:
        return diagonal(v, k)
    raise ValueError(
        three_lines(
            f"diag of an array {aval_of(v)} at {current_source()}",
            "diag input must be 1d or 2d",
            "use diagonal for stacks of matrices",
        )
    )


def _with_diagonal(v: Any, k: int) -> Any:
    zero = constant(0, v)
    v = pad(v, zero, [(0, abs(k), 0)])
    n = shape_of(v)[0]
    inside = on_diagonal((n, n), k)
    return choose_by(inside, broadcast_in_dim(v, (n, n), (0 if k >= 0 else 1,)), zero)


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """Return the matrix with the elements of `v`, in order, on its k-th diagonal.

    Example:
        >>> jnp.diagflat(jnp.array([[1, 2]]), k=1)
        Array([[0, 1, 0],
               [0, 0, 2],
               [0, 0, 0]], dtype=int32)
    """
    (v,) = operands("diagflat", v)
    return _with_diagonal(reshape(lifted(v), (aval_of(v).size,)), k)


@eager
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return a diagonal of the matrices that two axes span, as a new last axis.

    `offset` counts diagonals: 0 is the main one, positive numbers are above it. Rows are `axis1`,
    columns `axis2`.

    Example:
        >>> jnp.diagonal(jnp.arange(9).reshape(3, 3), offset=1)
        Array([1, 5], dtype=int32)
    """
    (a,) = operands("diagonal", a)
    rank = len(shape_of(a))
    if rank < 2:
        raise ValueError(
            three_lines(
                f"diagonal of an array {aval_of(a)} at {current_source()}",
                "diagonal requires an array of at least two dimensions.",
                "use diag for a vector",
            )
        )
    axis1, axis2 = (canonical_axis("diagonal", axis, rank) for axis in (axis1, axis2))
    if axis1 == axis2:
        raise ValueError(
            f"diagonal(axis1={axis1}, axis2={axis2}) at {current_source()}\n"
            "axis1 and axis2 cannot be the same\nname two axes"
        )
    others = [d for d in range(rank) if d not in (axis1, axis2)]
    a = transpose(a, (*others, axis1, axis2))
    rows, columns = a.shape[-2:]
    n = minimum(rows - max(0, -offset), columns - max(0, offset))
    if type(n) is int and n <= 0:
        return zeros((*a.shape[:-2], 0), a.dtype)
    last = rank - 1
    a = slice_in_dim(a, max(0, -offset), max(0, -offset) + n, 1, last - 1)
    a = slice_in_dim(a, max(0, offset), max(0, offset) + n, 1, last)
    # In the flat square, the diagonal is every (n+1)-th element.
    flat = reshape(a, (*a.shape[:-2], n * n))
    if type(n) is int:
        return slice_in_dim(flat, 0, n * n, n + 1, last - 1)
    kept = choose_by(on_diagonal((n, n), 0), a, constant(0, a))
    return reduce_sum(kept, (last,))


@eager
def trace(
    a: ArrayLike,
    offset: Any = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Sum a diagonal of the matrices that two axes span.

    `offset` counts diagonals: 0 is the main one, positive numbers are above it. Rows are `axis1`,
    columns `axis2`.

    Example:
        >>> jnp.trace(jnp.array([[1, 2], [3, 4]]))
        Array(5, dtype=int32)
    """
    refuse_out("trace", out)
    (a,) = operands("trace", a)
    found = aval_of(a).dtype
    if dtype is not None:
        wanted = dtypes.check_user_dtype(dtype, "trace")
    else:
        wanted = summing_dtype("trace", found, None, True)
    rank = len(shape_of(a))
    axis1, axis2 = (canonical_axis("trace", axis, rank) for axis in (axis1, axis2))
    if axis1 == axis2:
        raise ValueError(
            three_lines(
                f"trace of {aval_of(a)} along axes {axis1}, {axis2} at {current_source()}",
                "axis1 and axis2 can not be same",
                "name two axes",
            )
        )
    others = [d for d in range(rank) if d not in (axis1, axis2)]
    a = transpose(lifted(a), (*others, axis1, axis2))
    kept = choose_by(on_diagonal(a.shape[-2:], _offset("trace", offset)), a, constant(0, a))
    return reduce_sum(cast(kept, wanted), (rank - 2, rank - 1))


def vander(x: ArrayLike, N: Any = None, increasing: bool = False) -> Array:
    """Return the matrix whose columns are powers of `x`.

    `N` is the number of columns; with `increasing`, powers rise from left to right.

    Example:
        >>> jnp.vander(jnp.array([2, 3]), 3)
        Array([[4, 2, 1],
               [9, 3, 1]], dtype=int32)
    """
    (x,) = operands("vander", x)
    if len(shape_of(x)) != 1:
        raise ValueError(
            f"vander of {aval_of(x)} at {current_source()}\n"
            "x must be a one-dimensional array\nuse ravel"
        )
    columns = shape_of(x)[0] if N is None else N
    if columns < 0:
        raise ValueError(
            f"vander(N={N}) at {current_source()}\nN must be nonnegative\nask for 0 or more columns"
        )
    powers = iota(_INT, columns)
    if not increasing:
        powers = elementwise.sub(constant(columns - 1, powers), powers)
    target = (*shape_of(x), columns)
    base = broadcast_in_dim(lifted(x), target, (0,))
    return elementwise.pow(base, cast_like_exponent(powers, base, target))


def cast_like_exponent(powers: Any, base: Any, target: Any) -> Any:
    """Return integer exponents broadcast along the last axis, in a dtype that suits `base`."""
    spread = broadcast_in_dim(powers, target, (len(target) - 1,))
    if dtypes.issubdtype(base.dtype, np.integer):
        return cast(spread, base.dtype)
    return spread


@eager
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Exchange the last two axes.

    Example:
        >>> jnp.matrix_transpose(jnp.ones((5, 2, 3))).shape
        (5, 3, 2)
    """
    (x,) = operands("matrix_transpose", x)
    rank = len(shape_of(x))
    if rank < 2:
        raise ValueError(
            three_lines(
                f"matrix_transpose of an array {aval_of(x)} at {current_source()}",
                f"x must be at least two-dimensional for matrix_transpose; got ndim={rank}",
                "use a matrix, or a stack of them",
            )
        )
    return transpose(lifted(x), (*range(rank - 2), rank - 1, rank - 2))
