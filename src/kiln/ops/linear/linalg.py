"""Triangular factors of matrices, and solving systems of equations with them.

cholesky, triangular_solve, lu with the permutation of its pivots, and lu_solve, whose derivative
needs no derivative of the factors. Matrices are in the last two axes. Source of the derivatives:
Giles, "Collected matrix derivative results" (2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.absent import Zero
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import minimum
from kiln.ir.types import ShapedArray
from kiln.ops.counting import broadcasted_iota
from kiln.ops.elements.elementwise import bitwise_and, ge, mul, select, stop_gradient
from kiln.ops.elements.families import add, constant, full_like, neg
from kiln.ops.indexing.dimension_numbers import GatherDimensionNumbers, GatherScatterMode
from kiln.ops.indexing.indexing import gather
from kiln.ops.indexing.static_slicing import pad, slice_in_dim
from kiln.ops.linear import lapack
from kiln.ops.linear.contraction import accumulator_dtype
from kiln.ops.linear.matrices import (
    Batched,
    check_matrix,
    check_square,
    completed,
    conjugated,
    diagonal_mask,
    incompatible,
    lower,
    matmul,
    symmetrized,
    transposed,
    upper,
)
from kiln.ops.linear.pivots import host_permutation
from kiln.ops.out_sharding import plain_along, stacks
from kiln.ops.reductions.sorting import sort
from kiln.ops.shape import expand_dims, move_axis, reshape, squeeze

_INT = np.dtype(np.int32)


class Cholesky(Batched):
    """Return the lower triangular L with L L^H = A, of which the lower triangle is read."""

    name = "cholesky"

    def infer(self, x: Any) -> ShapedArray:
        check_matrix(self.name, x)
        check_square(self.name, x)
        return ShapedArray(x.shape, x.dtype, x.weak_type)

    def numpy(self, x: Any) -> Any:
        factor = lapack.routine("potrf", x.dtype)

        def one(a: np.ndarray) -> Any:
            found, info = factor(a, lower=1, clean=1)
            return None if info else [found]

        (out,) = lapack.each(one, [(x.shape[-2:], x.dtype)], (x, 2))
        return np.tril(out)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        # Only one triangle is read, so the tangent of the other does not count.
        t = completed(tangents[0])
        factor = self.bind(*primals)
        right = triangular_solve(factor, t, lower=True, transpose_a=True, conjugate_a=True)
        inner = triangular_solve(factor, right, left_side=True, lower=True)
        return factor, matmul(factor, _lower_half(inner))


def _lower_half(x: Any) -> Any:
    """Return the lower triangle with half of the diagonal."""
    inside = lower(x)
    return select(diagonal_mask(aval_of(x).shape), mul(inside, constant(0.5, x)), inside)


class TriangularSolve(Batched):
    """Solve op(A) X = B, or X op(A) = B, for triangular A; the other triangle is not read."""

    name = "triangular_solve"

    def infer(self, a: Any, b: Any, *, left_side: bool, **_: Any) -> ShapedArray:
        check_matrix(self.name, a, 0, None)
        check_matrix(self.name, b, 1, None)
        if a.dtype != b.dtype:
            raise TypeError(
                three_lines(
                    f"{self.name}: operands {a}, {b} at {current_source()}",
                    f"{self.name} requires arguments to have the same dtypes, got {a.dtype}, "
                    f"{b.dtype}.",
                    "convert one: b.astype(a.dtype)",
                )
            )
        check_square(self.name, a, "The first input")
        if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2 if left_side else -1]:
            raise incompatible(
                self.name,
                (a, b),
                f"Incompatible shapes for arguments to {self.name}: {tuple(a.shape)} and "
                f"{tuple(b.shape)}.",
                "b must have as many rows (columns without left_side) as a, and equal axes before",
            )
        return ShapedArray(b.shape, b.dtype, a.weak_type and b.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        a, b = xs
        free = b.ndim - 1 if params["left_side"] else b.ndim - 2
        (split,) = stacks(self.name, [a, plain_along(b, free)], (2, 2), results)
        return [b.split[axis] if axis == free else entry for axis, entry in enumerate(split)]

    def numpy(self, a: Any, b: Any, **params: Any) -> Any:
        dtype = accumulator_dtype(a.dtype, b.dtype, b.dtype)
        return host_triangular_solve(a.astype(dtype), b.astype(dtype), **params).astype(b.dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        (a, b), (ta, tb) = primals, tangents
        out = self.bind(a, b, **params)
        moved = None if type(tb) is Zero else tb
        if type(ta) is not Zero:
            operator = _operator(ta, **params)
            drift = matmul(operator, out) if params["left_side"] else matmul(out, operator)
            moved = neg(drift) if moved is None else add(moved, neg(drift))
        return out, self.bind(a, moved, **params)

    def transpose(self, ct: Any, a: Any, b: Any, *, transpose_a: bool, **params: Any) -> Any:
        return [None, self.bind(a, ct, transpose_a=not transpose_a, **params)]

    def batch(
        self, size: Any, xs: Sequence[Any], axes: Sequence[Any], *, left_side: bool, **params: Any
    ) -> Any:
        (a, b), (at_a, at_b) = xs, axes
        if at_a is not None:
            return super().batch(size, xs, axes, left_side=left_side, **params)
        # One matrix for all: the mapped axis becomes part of the columns (or rows) of b.
        ndim = aval_of(b).ndim
        at = ndim - 2 if left_side else ndim - 3
        b = move_axis(b, at_b, at)
        shape = aval_of(b).shape
        joined = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
        out = self.bind(a, reshape(b, joined), left_side=left_side, **params)
        return reshape(out, shape), at


def _operator(
    a: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    """Return op(A) as a full matrix; its diagonal is zero where that of A is not read."""
    inside = _lower(a, -int(unit_diagonal)) if lower else upper(a, int(unit_diagonal))
    inside = conjugated(inside) if conjugate_a else inside
    return transposed(inside) if transpose_a else inside


_lower = lower


def host_triangular_solve(
    a: np.ndarray,
    b: np.ndarray,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> np.ndarray:
    """Solve triangular systems with BLAS."""
    solve = lapack.blas("trsm", a.dtype)
    one = a.dtype.type(1)
    mode = (2 if conjugate_a else 1) if transpose_a else 0
    if conjugate_a and not transpose_a:
        a = a.conj()
    options = {"side": not left_side, "lower": lower, "trans_a": mode, "diag": unit_diagonal}
    if a.dtype.kind == "f":
        options["trans_a"] = int(transpose_a)
    (out,) = lapack.each(
        lambda p, q: [solve(one, p, q, **options)], [(b.shape[-2:], b.dtype)], (a, 2), (b, 2)
    )
    return out


class LU(Batched):
    """Return L U = P A in one matrix, the rows exchanged at each step, and P as a permutation."""

    name = "lu"
    multiple = True

    def infer(self, x: Any) -> list[ShapedArray]:
        check_matrix(self.name, x)
        rows, columns = x.shape[-2:]
        stack = x.shape[:-2]
        return [
            ShapedArray(x.shape, x.dtype, x.weak_type),
            ShapedArray((*stack, minimum(rows, columns)), _INT, x.weak_type),
            ShapedArray((*stack, rows), _INT, x.weak_type),
        ]

    def numpy(self, x: Any) -> Any:
        rows, columns = x.shape[-2:]
        count = min(rows, columns)
        factor = lapack.routine("getrf", x.dtype)
        results = [((rows, columns), x.dtype), ((count,), _INT)]
        factors, pivots = lapack.each(lambda a: factor(a)[:2], results, (x, 2))
        return [factors, pivots, host_permutation(pivots, rows)]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        (t,) = tangents
        factors, pivots, permutation = self.bind(*primals)
        rows, columns = aval_of(factors).shape[-2:]
        count = minimum(rows, columns)
        # Both factors become square: with zeros below, or with ones on the rest of the diagonal.
        below = _resized(_resized(lower(factors, -1), rows, -1), rows, -2)
        left = select(diagonal_mask(aval_of(below).shape), full_like(below, 1), below)
        right = _resized(upper(factors), columns, -2)
        beyond = ge(broadcasted_iota(_INT, aval_of(right).shape, aval_of(right).ndim - 2), count)  # type: ignore[arg-type]
        beyond = bitwise_and(beyond, diagonal_mask(aval_of(right).shape))
        right = select(beyond, full_like(right, 1), right)
        moved = triangular_solve(right, permuted_rows(t, permutation))
        moved = triangular_solve(left, moved, left_side=True, lower=True, unit_diagonal=True)
        change_of_left = matmul(left, _resized(lower(moved, -1), count, -1))
        change_of_right = matmul(_resized(upper(moved), count, -2), right)
        total = add(_resized(change_of_left, columns, -1), _resized(change_of_right, rows, -2))
        zeros = [Zero(aval_of(p).tangent()) for p in (pivots, permutation)]
        return [factors, pivots, permutation], [total, *zeros]


def _resized(x: Any, size: Any, axis: int) -> Any:
    """Truncate an axis to a size, or pad it with zeros."""
    aval = aval_of(x)
    found = aval.shape[axis]
    if found == size:
        return x
    if minimum(found, size) == size:
        return slice_in_dim(x, 0, size, axis=axis)
    config = [(0, 0, 0)] * aval.ndim
    config[axis] = (0, size - found, 0)
    return pad(x, constant(0, x), config)


class LUSolve(Batched):
    """Solve A X = B, or A^T X = B, by the factors of A that `lu` returned.

    The factors are treated as constants and all tangents as those of A, which is why A is an
    operand: differentiating costs two more triangular solves, and no derivative of a factorization.
    """

    name = "lu_solve"
    ranks = (2, 2, 1, 2)

    def infer(self, a: Any, factors: Any, permutation: Any, b: Any, *, trans: bool) -> ShapedArray:
        check_matrix(self.name, a, 0)
        check_square(self.name, a)
        stack, rows = a.shape[:-2], a.shape[-1]
        fits = (
            factors.shape == a.shape
            and permutation.shape == (*stack, rows)
            and b.shape[:-1] == (*stack, rows)
        )
        if not fits:
            raise incompatible(
                self.name,
                (a, factors, permutation, b),
                f"Incompatible shapes for arguments to {self.name}: {tuple(a.shape)} and "
                f"{tuple(b.shape)}.",
                "b must have as many rows as a, and equal axes before",
            )
        return ShapedArray(b.shape, b.dtype, a.weak_type and b.weak_type)

    def numpy(self, a: Any, factors: Any, permutation: Any, b: Any, *, trans: bool) -> Any:
        options = {"left_side": True, "transpose_a": trans, "conjugate_a": False}
        below = {**options, "lower": True, "unit_diagonal": True}
        above = {**options, "lower": False, "unit_diagonal": False}
        rows = permutation[..., None].astype(np.int64)
        if trans:
            x = host_triangular_solve(factors, b, **above)
            x = host_triangular_solve(factors, x, **below)
            return np.take_along_axis(x, np.argsort(rows, axis=-2), -2)
        x = host_triangular_solve(factors, np.take_along_axis(b, rows, -2), **below)
        return host_triangular_solve(factors, x, **above)

    def expand(self, a: Any, factors: Any, permutation: Any, b: Any, *, trans: bool) -> Any:
        return solve_by_factors(factors, permutation, b, trans)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, trans: bool) -> Any:
        a, factors, permutation, b = primals
        ta, _, _, tb = tangents
        out = self.bind(a, factors, permutation, b, trans=trans)
        moved = None if type(tb) is Zero else tb
        if type(ta) is not Zero:
            drift = neg(matmul(transposed(ta) if trans else ta, out))
            moved = drift if moved is None else add(moved, drift)
        if moved is None:
            return out, Zero(aval_of(out).tangent())
        return out, self.bind(a, factors, permutation, moved, trans=trans)

    def transpose(
        self, ct: Any, a: Any, factors: Any, permutation: Any, b: Any, *, trans: bool
    ) -> Any:
        return [None, None, None, self.bind(a, factors, permutation, ct, trans=not trans)]

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], *, trans: bool) -> Any:
        *matrix, b = xs
        if any(at is not None for at in axes[:-1]):
            return super().batch(size, xs, axes, trans=trans)
        at = aval_of(b).ndim - 2
        b = move_axis(b, axes[-1], at)
        shape = aval_of(b).shape
        joined = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
        return reshape(self.bind(*matrix, reshape(b, joined), trans=trans), shape), at


def solve_by_factors(factors: Any, permutation: Any, b: Any, trans: Any = False) -> Any:
    """Solve A X = B (A^T X = B with `trans`) by the factors of A and its permutation of rows."""
    if trans:
        x = triangular_solve(factors, b, left_side=True, transpose_a=True)
        options = {"lower": True, "transpose_a": True, "unit_diagonal": True}
        x = triangular_solve(factors, x, left_side=True, **options)
        return permuted_rows(x, inverse_permutations(permutation))
    x = permuted_rows(b, permutation)
    x = triangular_solve(factors, x, left_side=True, lower=True, unit_diagonal=True)
    return triangular_solve(factors, x, left_side=True)


def permuted_rows(x: Any, permutation: Any) -> Any:
    """Put row permutation[i] at row i.

    Shapes: (..., n, m), (..., n) -> (..., n, m)."""
    shape = aval_of(x).shape
    if 0 in shape:
        return x
    rank = len(shape)
    stack = tuple(range(rank - 2))
    numbers = GatherDimensionNumbers((rank - 1,), (rank - 2,), (rank - 2,), stack, stack)
    return gather(
        x,
        expand_dims(permutation, (rank - 1,)),
        numbers,
        (*[1] * (rank - 1), shape[-1]),
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        unique_indices=True,
    )


def inverse_permutations(permutation: Any) -> Any:
    """Return the permutations that undo permutations of the last axis."""
    aval = aval_of(permutation)
    count = broadcasted_iota(_INT, aval.shape, aval.ndim - 1)
    return sort((permutation, count), aval.ndim - 1)[1]


cholesky_p = Cholesky()
triangular_solve_p = TriangularSolve()
lu_p = LU()
lu_solve_p = LUSolve()


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """Return the lower triangular factor of Hermitian positive definite matrices; nan if not.

    Without `symmetrize_input`, only the lower triangle is read.

    Example:
        >>> lax.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
        Array([[2., 0.],
               [1., 2.]], dtype=float32)
    """
    return cholesky_p.bind(symmetrized("cholesky", x) if symmetrize_input else x)


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve x op(a) = b, or op(a) x = b with `left_side`, for triangular a.

    b may have one axis less than a: one vector per matrix.

    Example:
        >>> a, b = jnp.array([[2.0, 0.0], [1.0, 4.0]]), jnp.array([[2.0], [9.0]])
        >>> lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
        Array([[1.],
               [2.]], dtype=float32)
    """
    is_vector = aval_of(b).ndim == aval_of(a).ndim - 1
    if is_vector:
        rank = aval_of(a).ndim
        b = expand_dims(b, (rank - 1 if left_side else rank - 2,))
    out = triangular_solve_p.bind(
        a,
        b,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a) and aval_of(a).dtype.kind == "c",
        unit_diagonal=bool(unit_diagonal),
    )
    return squeeze(out, (-1 if left_side else -2,)) if is_vector else out


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """Return L U = P A with partial pivoting: both factors in one matrix, pivots, permutation.

    Example:
        >>> lu, pivots, permutation = lax.linalg.lu(jnp.array([[1.0, 2.0], [4.0, 4.0]]))
        >>> lu
        Array([[4.  , 4.  ],
               [0.25, 1.  ]], dtype=float32)
        >>> permutation
        Array([1, 0], dtype=int32)
    """
    factors, pivots, permutation = lu_p.bind(x)
    return factors, pivots, permutation


def lu_solve(a: Any, factors: Any, permutation: Any, b: Any, *, trans: bool = False) -> Any:
    """Solve a x = b with the result of `lu(a)`; differentiable with respect to a and b."""
    return lu_solve_p.bind(a, factors, permutation, b, trans=trans)


def linear_solve(a: Any, b: Any, *, trans: bool = False) -> Any:
    """Solve a x = b (a^T x = b with `trans`) for batches of square matrices a and matrices b."""
    factors, _, permutation = lu(stop_gradient(a))
    return lu_solve(a, factors, permutation, b, trans=trans)
