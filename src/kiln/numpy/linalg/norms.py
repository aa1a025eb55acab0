"""Norms of vectors and matrices, condition numbers, ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, Axes
from kiln.ir.sizes.size import maximum
from kiln.numpy.creation.arrays import cast
from kiln.numpy.elements.arithmetic import divide, multiply, power
from kiln.numpy.elements.elementary import sqrt
from kiln.numpy.elements.logic import choose_by, isnan, logical_and, logical_not, not_equal
from kiln.numpy.linalg.equations import hermitian_svd, inv, refused
from kiln.numpy.promotion import broadcast_to, inexact, one
from kiln.numpy.reductions.reductions import any as any_
from kiln.numpy.reductions.reductions import max as max_
from kiln.numpy.reductions.reductions import min as min_
from kiln.numpy.reductions.reductions import sum as sum_
from kiln.numpy.shapes import canonical_axes, moveaxis, ravel
from kiln.ops.elements.conversion import conj
from kiln.ops.elements.elementwise import abs, gt, mul
from kiln.ops.indexing.static_slicing import index_in_dim, slice_in_dim
from kiln.ops.linear import spectral
from kiln.ops.linear.matrices import is_complex, real_part
from kiln.ops.shape import expand_dims, reshape


def norm(x: ArrayLike, ord: Any = None, axis: Axes = None, keepdims: bool = False) -> Array:
    """Return a norm over one axis (of vectors) or two (of matrices), over all by default.

    `keepdims` keeps the reduced axes, with size 1.

    Raises: ValueError for an order that is not defined, or more than two axes.
    Example:
        >>> float(jnp.linalg.norm(jnp.array([3.0, 4.0])))
        5.0
        >>> jnp.linalg.norm(jnp.array([[3.0, 4.0], [6.0, 8.0]]), axis=1, ord=1)
        Array([ 7., 14.], dtype=float32)
    """
    x = inexact("norm", one("norm", x))
    rank = x.ndim
    if axis is None:
        if ord is None:
            return _euclidean(x, tuple(range(rank)), keepdims)
        axes = tuple(range(rank))
    else:
        axes = canonical_axes("norm", axis, rank)
    if len(axes) == 1:
        return _of_vectors(x, ord, axes, keepdims)
    if len(axes) == 2:
        return _of_matrices(x, "fro" if ord is None else ord, axes, keepdims)
    raise refused(
        "norm",
        (x,),
        f"Improper number of axes for norm: axis={axes}. Pass one axis to compute a vector-norm, "
        "or two axes to compute a matrix-norm.",
        "name one axis or two",
    )


def vector_norm(
    x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: Any = 2
) -> Array:
    """Return a norm of vectors, along all axes by default.

    `keepdims` keeps the reduced axes, with size 1.

    Example:
        >>> jnp.linalg.vector_norm(jnp.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
        Array([ 5., 10.], dtype=float32)
    """
    x = inexact("vector_norm", one("vector_norm", x))
    rank = x.ndim
    if axis is None:
        out = _of_vectors(ravel(x), ord, (0,), False)
        return reshape(out, (1,) * rank) if keepdims else out
    axes = canonical_axes("vector_norm", axis, rank)
    if len(axes) == 1:
        return _of_vectors(x, ord, axes, keepdims)
    others = tuple(a for a in range(rank) if a not in axes)
    moved = moveaxis(x, others, range(len(others)))
    flat = reshape(moved, (*(x.shape[a] for a in others), _count(x, axes)))
    out = _of_vectors(flat, ord, (len(others),), False)
    return expand_dims(out, axes) if keepdims else out


def _count(x: Any, axes: tuple[int, ...]) -> Any:
    count: Any = 1
    for axis in axes:
        count = count * x.shape[axis]
    return count


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Return a norm of the matrices in the last two axes.

    `keepdims` keeps the reduced axes, with size 1.

    Example:
        >>> jnp.linalg.matrix_norm(jnp.array([[3.0, 0.0], [0.0, 4.0]]))
        Array(5., dtype=float32)
    """
    x = inexact("matrix_norm", one("matrix_norm", x))
    return norm(x, ord, (-2, -1), keepdims)


def _unknown(kind: str, x: Any, ord: Any) -> Exception:
    known = "2, 1, 0, inf, -inf or a number" if kind == "vector" else "'fro', 'nuc', 1, 2 or inf"
    wrong = f"Invalid order '{ord}' for {kind} norm."
    return refused("norm", (x,), wrong, f"use {known}")


def _euclidean(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    squares = real_part(mul(x, conj(x))) if is_complex(x) else mul(x, x)
    return sqrt(sum_(squares, axes, keepdims=keepdims))


def _of_vectors(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    ord = 2 if ord is None else ord
    if isinstance(ord, str):
        raise _unknown("vector", x, ord)
    if isinstance(ord, (int, float)):
        if ord == 2:
            return _euclidean(x, axes, keepdims)
        if ord == np.inf:
            return max_(abs(x), axes, keepdims=keepdims, initial=0)
        if ord == -np.inf:
            return min_(abs(x), axes, keepdims=keepdims)
        if ord == 0:
            sizes = abs(x)
            return sum_(cast(not_equal(sizes, 0), sizes.dtype), axes, keepdims=keepdims)
        if ord == 1:
            return sum_(abs(x), axes, keepdims=keepdims)
    sizes = abs(x)
    exponent = cast(one("norm", ord), sizes.dtype)
    total = sum_(power(sizes, exponent), axes, keepdims=keepdims)
    return power(total, divide(1, exponent))


def _of_matrices(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    rows, columns = axes
    if ord == "fro":
        return _euclidean(x, axes, keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        summed, kept = (rows, columns) if ord in (1, -1) else (columns, rows)
        sums = sum_(abs(x), summed, keepdims=True)
        if ord in (1, np.inf):
            # A matrix without elements has norm 0.
            out = max_(sums, kept, keepdims=True, initial=0)
        else:
            out = min_(sums, kept, keepdims=True)
    elif ord in ("nuc", 2, -2):
        moved = moveaxis(x, axes, (-2, -1))
        values = spectral.svd(moved, compute_uv=False)
        if ord == 2:
            found = max_(values, -1, initial=0)
        else:
            found = sum_(values, -1) if ord == "nuc" else min_(values, -1)
        out = expand_dims(found, axes)
    else:
        raise _unknown("matrix", x, ord)
    return out if keepdims else reshape(out, [n for a, n in enumerate(x.shape) if a not in axes])


def cond(x: ArrayLike, p: Any = None) -> Array:
    """Return condition numbers: how much relative errors may be amplified.

    `p` is the norm, the 2-norm by default.

    Example:
        >>> jnp.linalg.cond(jnp.array([[100.0, 0.0], [0.0, 1.0]]))
        Array(100., dtype=float32)
    """
    x = one("cond", x)
    if x.ndim < 2:
        wrong = f"jnp.linalg.cond: input array must be at least 2D; got arr.shape={tuple(x.shape)}"
        raise refused("cond", (x,), wrong, "pass a matrix")
    if 0 in x.shape[-2:]:
        wrong = f"jnp.linalg.cond: input array must not be empty; got arr.shape={tuple(x.shape)}"
        raise refused("cond", (x,), wrong, "pass matrices with elements")
    x = inexact("cond", x)
    if p is None or p in (2, -2):
        values = spectral.svd(x, compute_uv=False)
        largest = index_in_dim(values, 0, values.ndim - 1, keepdims=False)
        least = index_in_dim(values, -1, values.ndim - 1, keepdims=False)
        return divide(least, largest) if p == -2 else divide(largest, least)
    if x.shape[-1] != x.shape[-2]:
        wrong = f"jnp.linalg.cond: for {p=}, array must be square; got arr.shape={tuple(x.shape)}"
        raise refused("cond", (x,), wrong, "leave p out")
    product = multiply(norm(x, p, (-2, -1)), norm(inv(x), p, (-2, -1)))
    # The inverse of a singular matrix is infinite, though 0 * inf is not.
    singular = logical_and(isnan(product), logical_not(any_(isnan(x), (-2, -1))))
    return choose_by(singular, np.float32(np.inf).astype(product.dtype), product)


def matrix_rank(
    M: ArrayLike,
    rtol: ArrayLike | None = None,
    *,
    hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> Array:
    """Return how many singular values are above `rtol`, also called `tol`: an absolute bound.

    By default it is the largest singular value times the larger size times the precision. With
    `hermitian` the matrices are taken for Hermitian, which is faster.

    Example:
        >>> jnp.linalg.matrix_rank(jnp.array([[1.0, 2.0], [2.0, 4.0]]))
        Array(1, dtype=int32)
    """
    M = inexact("matrix_rank", one("matrix_rank", M))
    if rtol is not None and tol is not None:
        raise ValueError(
            three_lines(
                f"matrix_rank(rtol={rtol}, tol={tol}) at {current_source()}",
                "matrix_rank: only one of tol or rtol may be specified.",
                "pass rtol",
            )
        )
    if M.ndim < 2:
        return cast(any_(not_equal(M, 0)), np.int32)
    values = hermitian_svd(M)[1] if hermitian else spectral.svd(M, compute_uv=False)
    wanted = tol if rtol is None else rtol
    if 0 in values.shape:
        return sum_(cast(values, np.int32), -1)
    if wanted is None:
        eps = np.asarray(dtypes.finfo(M.dtype).eps, values.dtype)
        wanted = multiply(slice_in_dim(values, 0, 1, axis=-1), eps * maximum(*M.shape[-2:]))
    else:
        wanted = cast(one("matrix_rank", wanted), values.dtype)
        wanted = expand_dims(wanted, (wanted.ndim,))
    return sum_(cast(gt(values, broadcast_to(wanted, values.shape)), np.int32), -1)
