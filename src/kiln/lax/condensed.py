"""Condensed forms of matrices: those of Hessenberg and Schur, and tridiagonal ones.

Reflections have the signs of LAPACK's `larfg`, so that results are those of LAPACK.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import scipy_linalg
from kiln.base.source import api_boundary, current_source
from kiln.control.effects.callback import pure_callback
from kiln.control.loops.loops import fori_loop
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.linear.matrices import completed


@api_boundary
def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """Return square matrices reduced to Hessenberg form, and the factors of the reflections.

    The first array holds the form in its upper triangle and first subdiagonal, and the reflections
    below; the factors have shape (..., n - 1). This is what LAPACK's gehrd returns.

    Raises: ValueError unless the last two axes are square, TypeError for integers.
    Example:
        >>> form, taus = lax.linalg.hessenberg(jnp.arange(9.0).reshape(3, 3))
        >>> form.shape, taus.shape
        ((3, 3), (2,))
    """
    x = _square("hessenberg", a)
    form, below, factors, _ = reduced(x, with_q=False)
    return form + below, factors


@api_boundary
def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """Return Hermitian matrices reduced to tridiagonal form, as LAPACK's sytrd does.

    Only the triangle that `lower` names is read. The results are the matrices, in that triangle of
    which the tridiagonal ones and the reflections replace what was there; the diagonals (..., n)
    and the diagonals beside them (..., n - 1), both real; and the factors of the reflections.

    Raises: ValueError unless the last two axes are square, TypeError for integers.
    Example:
        >>> a = jnp.array([[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
        >>> lax.linalg.tridiagonal(a)[1]
        Array([2., 2., 2.], dtype=float32)
    """
    x = _square("tridiagonal", a)
    whole = completed(x, from_lower=lower)
    if not lower:
        # What is reduced from the end in one triangle is reduced from the start in the other.
        whole = jnp.flip(whole, (-2, -1))
    form, below, factors, _ = reduced(whole, with_q=False)
    main = jnp.diagonal(form, axis1=-2, axis2=-1).real
    side = jnp.diagonal(form, offset=-1, axis1=-2, axis2=-1).real
    # What is above the first superdiagonal is rounding.
    packed = jnp.tril(form) + below
    if not lower:
        packed = jnp.flip(packed, (-2, -1))
        main, side, factors = (jnp.flip(y, -1) for y in (main, side, factors))
    row, column = (jnp.arange(x.shape[-1])[place] for place in (np.s_[:, None], np.s_[None, :]))
    read = row >= column if lower else row <= column
    return jnp.where(read, packed, x), main, side, factors


@api_boundary
def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Array]:
    """Return [U, Q] with x = Q U Qᴴ, or [U] alone, computed by LAPACK on the host.

    U is upper triangular but for blocks of two by two on the diagonals of real matrices.
    `select_callable` has no effect.

    Raises: ValueError unless the last two axes are square, TypeError for integers,
        NotImplementedError for `sort_eig_vals`.
    Example:
        >>> upper, q = lax.linalg.schur(jnp.array([[2.0, 1.0], [0.0, 3.0]]))
        >>> jnp.diagonal(upper)
        Array([2., 3.], dtype=float32)
    """
    a = _square("schur", x)
    if sort_eig_vals:
        raise NotImplementedError(
            three_lines(
                f"schur of {aval_of(a)} with sort_eig_vals=True at {current_source()}",
                "eigenvalues are not sorted",
                "leave sort_eig_vals out",
            )
        )
    kind = "complex" if jnp.iscomplexobj(a) else "real"
    shape = ShapedArray(a.shape, a.dtype)
    found = by_lapack(lambda m: scipy_linalg.schur(m, output=kind), a, [shape, shape])
    return found if compute_schur_vectors else found[:1]


def reduced(x: Any, *, with_q: bool) -> tuple[Any, Any, Any, Any]:
    """Return H, the reflections below its subdiagonal, their factors, and Q or None: x = Q H Qᴴ.

    Source: Golub and Van Loan, "Matrix computations", 7.4.2.
    """
    stack, size = x.shape[:-2], x.shape[-1]
    if size < 2:
        ones = jnp.ones_like(x) if with_q else None
        return x, jnp.zeros_like(x), jnp.zeros((*stack, 0), x.dtype), ones
    flat = x.reshape((math.prod(stack), size, size))
    steps = size - 1
    # Of two axes, as what it meets: the option numpy_rank_promotion may forbid to add one.
    rows = jnp.arange(size)[None]
    factors = jnp.zeros((flat.shape[0], steps), x.dtype)
    q = jnp.broadcast_to(jnp.eye(size, dtype=x.dtype), flat.shape) if with_q else None

    def step(k: Any, carry: Any) -> Any:
        h, below, factors, q = carry
        column = h[:, :, k]
        beta, tau, divisor = _reflection(column[:, k + 1], jnp.where(rows > k + 1, column, 0))
        tail = jnp.where(rows > k + 1, column / divisor[:, None], 0)
        v = tail + (rows == k + 1).astype(x.dtype)
        # From the left and from the right.
        left = jnp.conj(tau)[:, None] * v
        h = h - left[:, :, None] * jnp.einsum("bi,bij->bj", jnp.conj(v), h)[:, None, :]
        right = tau[:, None] * jnp.conj(v)
        h = h - jnp.einsum("bij,bj->bi", h, v)[:, :, None] * right[:, None, :]
        known = jnp.where(rows == k + 1, beta[:, None], jnp.where(rows > k + 1, 0, column))
        if q is not None:
            q = q - jnp.einsum("bij,bj->bi", q, v)[:, :, None] * right[:, None, :]
        return h.at[:, :, k].set(known), below.at[:, :, k].set(tail), factors.at[:, k].set(tau), q

    h, below, factors, q = fori_loop(0, steps, step, (flat, jnp.zeros_like(flat), factors, q))
    shaped = [y if y is None else y.reshape((*stack, size, size)) for y in (h, below, q)]
    return shaped[0], shaped[1], factors.reshape((*stack, steps)), shaped[2]


def _reflection(first: Any, rest: Any) -> tuple[Any, Any, Any]:
    """Return what is left of a vector, the factor of its reflection, and what divides the rest.

    There is no reflection if nothing is to be eliminated.
    """
    square = jnp.sum(jnp.abs(rest) ** 2, axis=-1)
    real, imaginary = first.real, first.imag
    none = (square == 0) & (imaginary == 0)
    norm = jnp.sqrt(jnp.where(none, 1, real**2 + imaginary**2 + square))
    beta = jnp.where(none, 1, jnp.where(jnp.signbit(real), norm, -norm)).astype(rest.dtype)
    left = jnp.where(none, real.astype(rest.dtype), beta)
    tau = jnp.where(none, 0, (beta - first) / beta)
    return left, tau, jnp.where(none, 1, first - beta)


def by_lapack(run: Callable[..., Any], x: Any, results: list[Any]) -> Any:
    """Call a function of one matrix for every matrix of a stack, on the host.

    `run(matrix)` returns an array for each of `results`, which have the types of the whole results;
    matrices with an element that is not finite give nan.
    Shapes: (..., m, n).
    """

    def host(stack: np.ndarray) -> list[np.ndarray]:
        stack = np.asarray(stack)
        outs = [np.empty(stack.shape, r.dtype) for r in results]
        for place in np.ndindex(stack.shape[:-2]):
            one = stack[place]
            fine = bool(np.isfinite(one).all())
            found = run(one) if fine and one.size else [np.full(one.shape, np.nan)] * len(outs)
            for out, value in zip(outs, found, strict=True):
                out[place] = value
        return outs

    return pure_callback(host, results, x, vmap_method="expand_dims")


def _square(name: str, a: Any) -> Any:
    x = jnp.asarray(a)
    if not dtypes.issubdtype(x.dtype, np.inexact):
        raise TypeError(
            three_lines(
                f"{name} of {aval_of(x)} at {current_source()}",
                f"{name} does not accept dtype {x.dtype.name}; accepted are floating, complex",
                "convert it with astype first",
            )
        )
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(
            three_lines(
                f"{name} of {aval_of(x)} at {current_source()}",
                f"The input to {name} must be a square matrix. Got shape {tuple(x.shape)}.",
                "pass an array of shape (..., n, n)",
            )
        )
    return x
