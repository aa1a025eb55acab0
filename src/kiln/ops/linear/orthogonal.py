"""Orthogonal factors of matrices: Householder reflections, products of them, and QR.

LAPACK's form: `geqrf` leaves R on and above the diagonal and the vectors of the reflections below
it; `householder_product` multiplies the reflections out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.absent import Zero
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import minimum
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import complex as join_complex
from kiln.ops.elements.conversion import imag
from kiln.ops.elements.elementwise import select, sub
from kiln.ops.elements.families import add, constant, full_like, neg
from kiln.ops.indexing.slicing import dynamic_update_slice
from kiln.ops.indexing.static_slicing import concatenate, pad, slice_in_dim
from kiln.ops.linear import lapack
from kiln.ops.linear.linalg import linear_solve, permuted_rows, triangular_solve
from kiln.ops.linear.matrices import (
    Batched,
    adjoint,
    check_matrix,
    diagonal,
    diagonal_mask,
    incompatible,
    is_complex,
    lower,
    matmul,
    transposed,
    upper,
    with_diagonal,
)
from kiln.ops.shape import full

_INT = np.dtype(np.int32)


class Geqrf(Batched):
    """Return R and the vectors of the reflections in one matrix, and the reflections' factors."""

    name = "geqrf"
    multiple = True

    def infer(self, x: Any) -> list[ShapedArray]:
        check_matrix(self.name, x)
        count = minimum(*x.shape[-2:])
        return [
            ShapedArray(x.shape, x.dtype, x.weak_type),
            ShapedArray((*x.shape[:-2], count), x.dtype, x.weak_type),
        ]

    def numpy(self, x: Any) -> Any:
        if 0 in x.shape:
            return [x, np.zeros((*x.shape[:-2], min(x.shape[-2:])), x.dtype)]
        factor = lapack.routine("geqrf", x.dtype)
        sample = np.empty(x.shape[-2:], x.dtype)
        size = lapack.workspace(factor(sample, lwork=-1))
        results = [(x.shape[-2:], x.dtype), ((min(x.shape[-2:]),), x.dtype)]
        return lapack.each(lambda a: factor(a, lwork=size)[:2], results, (x, 2))


class Geqp3(Batched):
    """Like geqrf, with the columns permuted so that the diagonal of R decreases; also the order."""

    name = "geqp3"
    multiple = True

    def infer(self, x: Any) -> list[ShapedArray]:
        check_matrix(self.name, x)
        stack, (rows, columns) = x.shape[:-2], x.shape[-2:]
        return [
            ShapedArray(x.shape, x.dtype, x.weak_type),
            ShapedArray((*stack, columns), _INT, x.weak_type),
            ShapedArray((*stack, minimum(rows, columns)), x.dtype, x.weak_type),
        ]

    def numpy(self, x: Any) -> Any:
        stack, (rows, columns) = x.shape[:-2], x.shape[-2:]
        if 0 in x.shape:
            order = np.broadcast_to(np.arange(columns, dtype=_INT), (*stack, columns))
            return [x, order, np.zeros((*stack, min(rows, columns)), x.dtype)]
        factor = lapack.routine("geqp3", x.dtype)
        size = lapack.workspace(factor(np.empty((rows, columns), x.dtype), lwork=-1))

        def one(a: np.ndarray) -> Any:
            reduced, order, taus = factor(a, lwork=size)[:3]
            return [reduced, order - 1, taus]

        results = [((rows, columns), x.dtype), ((columns,), _INT), ((min(rows, columns),), x.dtype)]
        return lapack.each(one, results, (x, 2))


class HouseholderProduct(Batched):
    """Multiply reflections out: the leading columns of the product, as many as `a` has."""

    name = "householder_product"
    ranks = (2, 1)

    def infer(self, a: Any, taus: Any) -> ShapedArray:
        check_matrix(self.name, a)
        rows, columns = a.shape[-2:]
        if rows != columns and minimum(rows, columns) != columns:
            raise incompatible(
                self.name,
                (a, taus),
                f"The first argument to {self.name} must have at least as many rows as columns, "
                f"got shape {tuple(a.shape)}",
                "slice the matrix to its first columns",
            )
        count = taus.shape[-1] if taus.ndim else 0
        if taus.dtype != a.dtype or taus.shape[:-1] != a.shape[:-2]:
            raise incompatible(
                self.name,
                (a, taus),
                f"{self.name} requires equal dtypes and equal axes before the matrices",
                "pass what geqrf returned",
            )
        if count != columns and minimum(count, columns) != count:
            raise incompatible(
                self.name,
                (a, taus),
                f"The second argument to {self.name} must not have more rows than the minimum of "
                "the first argument's rows and columns.",
                "pass one factor for each reflection",
            )
        return ShapedArray(a.shape, a.dtype, a.weak_type and taus.weak_type)

    def numpy(self, a: Any, taus: Any) -> Any:
        if 0 in (*taus.shape, *a.shape):
            return np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape)
        name = "ungqr" if a.dtype.kind == "c" else "orgqr"
        multiply = lapack.routine(name, a.dtype)
        sample = np.empty(a.shape[-2:], a.dtype), np.empty(taus.shape[-1:], a.dtype)
        size = lapack.workspace(multiply(*sample, lwork=-1))
        results = [(a.shape[-2:], a.dtype)]
        (out,) = lapack.each(
            lambda v, t: multiply(v, t, lwork=size)[:1], results, (a, 2), (taus, 1)
        )
        return out


class QR(Batched):
    """Factor matrices into one with orthonormal columns and an upper triangular one."""

    name = "qr"
    multiple = True

    def infer(
        self, x: Any, *, full_matrices: bool, pivoting: bool, use_magma: Any
    ) -> list[ShapedArray]:
        check_matrix(self.name, x)
        stack, (rows, columns) = x.shape[:-2], x.shape[-2:]
        inner = rows if full_matrices else minimum(rows, columns)
        outs = [
            ShapedArray((*stack, rows, inner), x.dtype, x.weak_type),
            ShapedArray((*stack, inner, columns), x.dtype, x.weak_type),
        ]
        order = ShapedArray((*stack, columns), _INT, x.weak_type)
        return [*outs, order] if pivoting else outs

    def numpy(self, x: Any, *, full_matrices: bool, pivoting: bool, use_magma: Any) -> Any:
        order = []
        if pivoting:
            reduced, columns_in_order, taus = geqp3_p.numpy(x)
            order = [columns_in_order]
        else:
            reduced, taus = geqrf_p.numpy(x)
        rows, columns = x.shape[-2:]
        if rows < columns:
            vectors = reduced[..., :rows]
        elif full_matrices:
            widths = [(0, 0)] * (x.ndim - 1) + [(0, rows - columns)]
            vectors = np.pad(reduced, widths)
        else:
            vectors = reduced
        r = np.triu(reduced if full_matrices else reduced[..., : min(rows, columns), :])
        return [householder_product_p.numpy(vectors, taus), r, *order]

    def expand(self, x: Any, *, full_matrices: bool, pivoting: bool, use_magma: Any) -> Any:
        if pivoting:
            reduced, *order, taus = geqp3_p.bind(x)
        else:
            (reduced, taus), order = geqrf_p.bind(x), []
        rows, columns = aval_of(x).shape[-2:]
        count = minimum(rows, columns)
        inner = rows if full_matrices else count
        vectors = reduced if count == columns else slice_in_dim(reduced, 0, count, axis=-1)
        if inner != count:
            vectors = _with_rows(vectors, inner, -1)
        r = upper(reduced if inner == rows else _first_rows(reduced, inner))
        return [householder_product_p.bind(vectors, taus), r, *order]

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        full_matrices: bool,
        pivoting: bool,
        use_magma: Any,
    ) -> Any:
        (t,) = tangents
        outs = self.bind(
            *primals, full_matrices=full_matrices, pivoting=pivoting, use_magma=use_magma
        )
        q, r, *order = outs
        if order:
            t = transposed(permuted_rows(transposed(t), order[0]))
        rows, columns = aval_of(t).shape[-2:]
        count = minimum(rows, columns)
        first = slice_in_dim(q, 0, count, axis=-1)
        top = _first_rows(r, count)
        square = slice_in_dim(top, 0, count, axis=-1)
        # Q^H dQ is skew, dR R^-1 upper triangular with a real diagonal: this separates their sum.
        scaled = triangular_solve(square, slice_in_dim(t, 0, count, axis=-1))
        both = matmul(adjoint(first), scaled)
        turn = _skew_part(both)
        dq = add(scaled, neg(matmul(first, sub(both, turn))))
        dr = upper(sub(matmul(adjoint(first), t), matmul(turn, top)))
        if full_matrices and rows != count:
            dq = concatenate([dq, _motion_of_complement(first, dq)], aval_of(q).ndim - 1)
            dr = _with_rows(dr, rows, -2)
        return outs, [dq, dr, *[Zero(aval_of(p).tangent()) for p in order]]


def _skew_part(x: Any) -> Any:
    """Return the skew-Hermitian matrix with the strict lower triangle of x."""
    below = lower(x, -1)
    turn = sub(below, adjoint(below))
    if not is_complex(x):
        return turn
    phase = imag(diagonal(x))
    return add(turn, with_diagonal(join_complex(full_like(phase, 0), phase)))


def _motion_of_complement(q: Any, dq: Any) -> Any:
    """Return the tangent of the columns that complete q to a square matrix.

    A product of as many reflections as q has columns is I - W (W1^-1)^H W^H, where W is the
    identity's first columns minus q, and W1 its square top.
    """
    aval = aval_of(q)
    rows, columns = aval.shape[-2:]
    w = sub(_identity_columns(q), q)
    square = _first_rows(w, columns)

    def over_square(x: Any) -> Any:
        return transposed(linear_solve(square, transposed(x), trans=True))

    ratio = over_square(slice_in_dim(w, columns, rows, axis=-2))
    moved = matmul(ratio, _first_rows(dq, columns))
    d_ratio = over_square(sub(moved, slice_in_dim(dq, columns, rows, axis=-2)))
    return sub(matmul(dq, adjoint(ratio)), matmul(w, adjoint(d_ratio)))


def _identity_columns(x: Any) -> Any:
    ones = full_like(x, 1)
    return select(diagonal_mask(aval_of(x).shape), ones, full_like(x, 0))


def _first_rows(x: Any, count: Any) -> Any:
    return slice_in_dim(x, 0, count, axis=-2)


def _with_rows(x: Any, size: Any, axis: int) -> Any:
    """Append zeros along an axis up to a size."""
    aval = aval_of(x)
    config = [(0, 0, 0)] * aval.ndim
    config[axis] = (0, size - aval.shape[axis], 0)
    shape = [*aval.shape]
    shape[axis] = size
    if shape[axis] == aval.shape[axis] + config[axis][1]:
        return pad(x, constant(0, x), config)
    # For named sizes it is not known that min(m, n) and max(m - n, 0) add up to m.
    zeros = full(shape, 0, aval.dtype)
    return dynamic_update_slice(zeros, x, [np.int32(0)] * aval.ndim)


geqrf_p = Geqrf()
geqp3_p = Geqp3()
householder_product_p = HouseholderProduct()
qr_p = QR()


def geqrf(a: ArrayLike) -> tuple[Array, Array]:
    """Return LAPACK's form of the QR factors: R with the reflections below it, their factors.

    Shapes: `a` (..., m, n) -> (..., m, n), (..., min(m, n)).
    Example:
        >>> packed, taus = lax.linalg.geqrf(jnp.array([[3.0, 1.0], [4.0, 2.0]]))
        >>> jnp.abs(jnp.triu(packed)).round(4)
        Array([[5. , 2.2],
               [0. , 0.4]], dtype=float32)
    """
    reduced, taus = geqrf_p.bind(a)
    return reduced, taus


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """Multiply out the reflections that LAPACK's QR leaves below the diagonal of `a`.

    Shapes: `a` (..., m, n), `taus` (..., k), one for each reflection -> (..., m, n).
    Example:
        >>> packed, taus = lax.linalg.geqrf(jnp.array([[3.0, 1.0], [4.0, 2.0]]))
        >>> q = lax.linalg.householder_product(packed, taus)
        >>> (q.T @ q).round(4)
        Array([[ 1., -0.],
               [-0.,  1.]], dtype=float32)
    """
    return householder_product_p.bind(a, taus)


def qr(
    x: ArrayLike,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> tuple[Any, ...]:
    """Return Q and R with x = Q R; with `pivoting` also the order of the columns of x.

    Shapes: (..., m, n) -> (..., m, k), (..., k, n), where k is m, or min(m, n) without
    `full_matrices`.
    Example:
        >>> q, r = lax.linalg.qr(jnp.ones((3, 2)), full_matrices=False)
        >>> q.shape, r.shape
        ((3, 2), (2, 2))
    """
    return tuple(
        qr_p.bind(
            x, pivoting=bool(pivoting), full_matrices=bool(full_matrices), use_magma=use_magma
        )
    )
