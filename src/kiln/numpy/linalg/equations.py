"""Systems of linear equations: solve, inverse and pseudo-inverse, least squares, tensor forms."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.custom_rules.jvp import custom_jvp
from kiln.core.array_type import Array, ArrayLike, Axes
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import Dim, maximum
from kiln.numpy.creation.arrays import cast
from kiln.numpy.creation.filling import zeros
from kiln.numpy.elements.arithmetic import add, multiply, negative, square
from kiln.numpy.elements.logic import choose_by
from kiln.numpy.products import matmul
from kiln.numpy.promotion import (
    broadcast_shapes,
    broadcast_to,
    inexact,
    one,
    operands,
    promote_dtypes_inexact,
)
from kiln.numpy.reductions.reductions import sum as sum_
from kiln.numpy.shapes import canonical_axes, index_of, moveaxis
from kiln.ops.elements.elementwise import abs, bitwise_and, ge, gt, select, sub
from kiln.ops.elements.families import constant, full_like
from kiln.ops.indexing.static_slicing import slice_in_dim
from kiln.ops.linear import spectral
from kiln.ops.linear.contraction import Precision
from kiln.ops.linear.linalg import linear_solve
from kiln.ops.linear.matrices import (
    adjoint,
    identity,
    real_dtype,
    safe_reciprocal,
    scale_rows,
    symmetrized,
)
from kiln.ops.reductions.sorting import sort, take_along
from kiln.ops.shape import expand_dims, reshape, squeeze

_EXACT = Precision.HIGHEST


def refused(name: str, xs: Any, wrong: str, remedy: str, kind: type[Exception] = ValueError) -> Any:
    """Build the error for operands that a matrix function does not accept."""
    found = ", ".join(str(aval_of(x)) for x in xs)
    return kind(three_lines(f"{name}: operands {found} at {current_source()}", wrong, remedy))


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """Solve the linear systems a x = b.

    Shapes: (..., n, n), (..., n, m) -> (..., n, m); (..., n, n), (n) -> (..., n).
    Raises: ValueError for incompatible shapes.
    Example:
        >>> jnp.linalg.solve(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 4.0]))
        Array([1., 1.], dtype=float32)
        >>> stack = jnp.stack([jnp.eye(2), 2 * jnp.eye(2)])
        >>> jnp.linalg.solve(stack, jnp.ones((2, 2, 1)))[:, 0, 0]
        Array([1. , 0.5], dtype=float32)
    """
    a, b = (one("solve", x) for x in operands("solve", a, b))
    a, b = promote_dtypes_inexact(a, b)
    if a.ndim < 2:
        raise refused(
            "solve",
            (a, b),
            f"left hand array must be at least two dimensional; got a.shape={tuple(a.shape)}",
            "pass a square matrix, or a stack of them",
        )
    n = a.shape[-1]
    is_vector = b.ndim == 1
    fits = a.shape[-2] == n and b.ndim >= 1 and b.shape[0 if is_vector else -2] == n
    if not fits:
        raise refused(
            "solve",
            (a, b),
            f"Invalid shapes for solve: {tuple(a.shape)}, {tuple(b.shape)}. Only one-dimensional b "
            "is a vector",
            "b must have as many rows as a; for stacks of vectors use "
            "solve(a, b[..., None]).squeeze(-1)",
        )
    if is_vector:
        b = expand_dims(b, (1,))
    stack = broadcast_shapes("solve", a.shape[:-2], b.shape[:-2])
    if b.shape[:-2] != stack or (stack and a.ndim > 2 and a.shape[:-2] != stack):
        b = broadcast_to(b, (*stack, *b.shape[-2:]))
    out = _solved(a, b, stack)
    return squeeze(out, (-1,)) if is_vector else out


def _solved(a: Any, b: Any, stack: tuple[Dim, ...]) -> Any:
    if a.ndim == 2 and stack and 0 not in b.shape:
        # One matrix: the stack of right-hand sides becomes columns of one.
        moved = moveaxis(b, -2, 0)
        out = linear_solve(a, reshape(moved, (moved.shape[0], math.prod(moved.shape[1:]))))
        return moveaxis(reshape(out, moved.shape), 0, -2)
    return linear_solve(broadcast_to(a, (*stack, *a.shape[-2:])), b)


def inv(a: ArrayLike) -> Array:
    """Return the inverses of matrices.

    To solve equations, use `solve`: it is faster and more exact. A singular matrix gives infinities
    and nan, not LinAlgError.
    Shapes: (..., n, n) -> (..., n, n).

    Raises: ValueError for matrices that are not square.
    Example:
        >>> jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
        Array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
        >>> a = jnp.array([[2.0, 1.0], [1.0, 1.0]])
        >>> (jnp.linalg.inv(a) @ a).round(5)
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    a = inexact("inv", one("inv", a))
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise refused(
            "inv",
            (a,),
            f"Argument to inv must have shape [..., n, n], got {tuple(a.shape)}.",
            "use pinv for matrices that are not square",
        )
    return linear_solve(a, identity(a))


def pinv(
    a: ArrayLike,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> Array:
    """Return pseudo-inverses; singular values below `rtol` times the largest are treated as zero.

    `rcond` is another name for `rtol`. With `hermitian` the matrices are taken for Hermitian, which
    is faster.

    Example:
        >>> jnp.linalg.pinv(jnp.array([[2.0, 0.0], [0.0, 0.0]]))
        Array([[0.5, 0. ],
               [0. , 0. ]], dtype=float32)
    """
    if rcond is not None and rtol is not None:
        raise ValueError(
            three_lines(
                f"pinv(rtol={rtol}, rcond={rcond}) at {current_source()}",
                "pinv: only one of rtol and rcond may be specified.",
                "pass rtol",
            )
        )
    a = inexact("pinv", one("pinv", a))
    if a.ndim < 2:
        raise refused("pinv", (a,), "pinv needs at least two axes", "pass a matrix")
    wanted = rcond if rtol is None else rtol
    if wanted is None:
        largest: Any = maximum(*a.shape[-2:])
        wanted = 10.0 * largest * float(dtypes.finfo(a.dtype).eps)
    wanted = cast(one("pinv", wanted), real_dtype(a.dtype))
    if hermitian:
        # What is inverted, also where the operand or its tangent is not Hermitian.
        a = symmetrized("pinv", a)
    return _pinv(a, wanted, hermitian)


def _pinv(a: Any, rtol: Any, hermitian: bool) -> Any:
    @custom_jvp
    def inverse(a: Any, rtol: Any) -> Any:
        u, s, vt = hermitian_svd(a) if hermitian else spectral.svd(a, full_matrices=False)
        if 0 in s.shape:
            return adjoint(a)
        first = slice_in_dim(s, 0, 1, axis=-1)
        bound = multiply(expand_dims(rtol, (rtol.ndim,)) if rtol.ndim else rtol, first)
        kept = choose_by(gt(s, broadcast_to(bound, s.shape)), s, constant(0, s))
        scale = cast(safe_reciprocal(kept), a.dtype)
        return matmul(adjoint(vt), scale_rows(adjoint(u), scale), precision=_EXACT)

    @inverse.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        (a, rtol), (t, _) = primals, tangents
        p = inverse(a, rtol)

        def times(*xs: Any) -> Any:
            # In the order that makes squares of the shorter side.
            if a.shape[-2] >= a.shape[-1]:
                return functools.reduce(product, xs)
            return functools.reduce(lambda right, x: product(x, right), reversed(xs))

        product = functools.partial(matmul, precision=_EXACT)

        # Golub and Pereyra (1973): the change within the ranges, and of the two ranges.
        t_adjoint, p_adjoint = adjoint(t), adjoint(p)
        inner = negative(times(p, t, p))
        of_rows = times(p, p_adjoint, t_adjoint)
        of_rows = sub(of_rows, times(of_rows, a, p))
        of_columns = times(t_adjoint, p_adjoint, p)
        of_columns = sub(of_columns, times(p, a, of_columns))
        return p, add(inner, add(of_rows, of_columns))

    return inverse(a, rtol)


def hermitian_svd(a: ArrayLike) -> tuple[Array, Array, Array]:
    """Return singular values and vectors of Hermitian matrices, computed from eigenvalues."""
    vectors, values = spectral.eigh(a)
    sizes = abs(values)
    axis = sizes.ndim - 1
    order = sort((negative(sizes), _positions(sizes)), axis)[1]
    sizes, values = (take_along(x, order, axis) for x in (sizes, values))
    columns = broadcast_to(expand_dims(order, (axis,)), vectors.shape)
    u = take_along(vectors, columns, axis + 1)
    flipped = gt(constant(0, values), values)
    signs = select(flipped, full_like(values, -1), full_like(values, 1))
    return u, sizes, scale_rows(adjoint(u), cast(signs, u.dtype))


def _positions(x: Any) -> Any:
    from_zero = np.arange(x.shape[-1], dtype=np.int32)
    return broadcast_to(one("svd", from_zero), x.shape)


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Return the x that minimizes |a x - b|, squared residuals, and rank and singular values of a.

    Singular values below `rcond` times the largest count as 0. With `numpy_resid` residuals are
    those of NumPy: there are none for deficient ranks.

    Shapes: (n, m), (n, k) -> (m, k), (k,), (), (min(n, m),).
    Raises: TypeError or ValueError for other shapes.
    Example:
        >>> a = jnp.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
        >>> jnp.linalg.lstsq(a, jnp.array([1.0, 3.0, 5.0]))[0].round(4)
        Array([1., 2.], dtype=float32)
    """
    a, b = (one("lstsq", x) for x in operands("lstsq", a, b))
    a, b = promote_dtypes_inexact(a, b)
    if a.ndim != 2:
        wrong = f"{a.ndim}-dimensional array given. Array must be two-dimensional"
        raise refused("lstsq", (a, b), wrong, "use vmap for stacks", TypeError)
    if b.ndim not in (1, 2):
        wrong = f"{b.ndim}-dimensional array given. Array must be one or two-dimensional"
        raise refused("lstsq", (a, b), wrong, "use vmap for stacks", TypeError)
    rows, columns = a.shape
    if rows != b.shape[0]:
        wrong = "Leading dimensions of input arrays must match"
        raise refused("lstsq", (a, b), wrong, "pass as many rows of b as of a")
    is_vector = b.ndim == 1
    if is_vector:
        b = expand_dims(b, (1,))
    real = real_dtype(a.dtype)
    if rows == 0 or columns == 0:
        x, s = zeros((columns, b.shape[1]), a.dtype), zeros((0,), real)
        rank, residuals = zeros((), np.int32), _squares(b)
        if numpy_resid and rows == 0:
            residuals = zeros((0,), real)
    else:
        x, s, rank = _least_squares(a, b, rcond)
        residuals = _squares(sub(b, matmul(a, x, precision=_EXACT)))
        if numpy_resid:
            # NumPy returns none for rank-deficient matrices, whose residuals are not unique.
            known = rows > columns and int(rank) == columns
            residuals = residuals if known else zeros((0,), real)
    return (squeeze(x, (1,)) if is_vector else x), residuals, rank, s


def _squares(x: Any) -> Any:
    return sum_(square(abs(x)), 0)


def _least_squares(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any]:
    eps = float(dtypes.finfo(a.dtype).eps)
    if rcond is None:
        rcond = eps * max(a.shape)
    elif isinstance(rcond, (int, float)) and rcond < 0:
        rcond = eps
    u, s, vt = spectral.svd(a, full_matrices=False)
    bound = multiply(cast(one("lstsq", rcond), s.dtype), slice_in_dim(s, 0, 1))
    inside = ge(s, broadcast_to(bound, s.shape))
    # Of a matrix of zeros, none of the singular values counts.
    inside = bitwise_and(inside, gt(s, full_like(s, 0)))
    rank = sum_(cast(inside, np.int32))
    scale = safe_reciprocal(select(inside, s, full_like(s, 0)))
    projected = matmul(adjoint(u), b, precision=_EXACT)
    x = matmul(adjoint(vt), scale_rows(projected, cast(scale, a.dtype)), precision=_EXACT)
    return x, s, rank


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Return the inverse of a tensor as a map from its last axes to its first `ind`.

    Example:
        >>> a = jnp.eye(6).reshape(2, 3, 6)
        >>> jnp.linalg.tensorinv(a, ind=2).shape
        (6, 2, 3)
    """
    a = one("tensorinv", a)
    if index_of("tensorinv", ind) <= 0:
        wrong = f"ind must be a positive integer; got ind={ind}"
        raise refused("tensorinv", (a,), wrong, "name how many axes are rows")
    rows, columns = math.prod(a.shape[:ind]), math.prod(a.shape[ind:])
    if rows != columns:
        wrong = (
            f"tensorinv is only possible when the product of the first `ind` dimensions equals that"
            f" of the remaining dimensions. got arr.shape={tuple(a.shape)} with ind={ind}."
        )
        raise refused("tensorinv", (a,), wrong, "choose another ind")
    return reshape(inv(reshape(a, (rows, columns))), (*a.shape[ind:], *a.shape[:ind]))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Axes = None) -> Array:
    """Solve tensordot(a, x, x.ndim) = b for x; `axes` of a are first moved last.

    Example:
        >>> jnp.linalg.tensorsolve(2 * jnp.eye(4).reshape(2, 2, 2, 2), jnp.ones((2, 2)))
        Array([[0.5, 0.5],
               [0.5, 0.5]], dtype=float32)
    """
    a, b = (one("tensorsolve", x) for x in operands("tensorsolve", a, b))
    if axes is not None:
        moved = canonical_axes("tensorsolve", axes, a.ndim)
        a = moveaxis(a, moved, range(a.ndim - len(moved), a.ndim))
    shape = a.shape[b.ndim :]
    size = math.prod(shape)
    if math.prod(a.shape) != size * size or math.prod(b.shape) != size:
        wrong = (
            "After moving axes to end, leading shape of a must match shape of b. got "
            f"a.shape={tuple(a.shape)}, b.shape={tuple(b.shape)}"
        )
        raise refused("tensorsolve", (a, b), wrong, "name other axes")
    return reshape(solve(reshape(a, (size, size)), reshape(b, (size,))), shape)
