"""Cases of the decompositions of matrices.

Random matrices are made well conditioned, and their values kept apart, by adding to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.ops.elements.families import add
from kiln.ops.linear import linalg, orthogonal, pivots, spectral, spectral_algorithms
from kiln.ops.linear.matrices import adjoint, matmul, scale_columns
from kiln.ops.shape import broadcast_in_dim
from tests.cases.case import Case, Operand

SQUARE = Operand((3, 3), low=-1, high=1)
STACK = Operand((2, 3, 3), low=-1, high=1)
COMPLEX = Operand((3, 3), "complex64", low=-1, high=1)
TALL = Operand((4, 2), low=-1, high=1)
TALL_COMPLEX = Operand((4, 2), "complex64", low=-1, high=1)
WIDE = Operand((2, 4), low=-1, high=1)
RIGHT = Operand((3, 2))
N_STACK = ((0, 0),)
N_SQUARE = ((0, 0), (0, 1))


def spread(x: Any) -> Any:
    """Add 4, 8, 12, ... to the diagonal: no zero pivots, no equal values."""
    shape = x.shape
    count = min(shape[-2:])
    steps = np.zeros(shape[-2:], np.dtype(x.dtype))
    steps[np.arange(count), np.arange(count)] = 4 * np.arange(1, count + 1)
    # Along a named stack the constant has to be stretched.
    return add(x, broadcast_in_dim(steps, shape, (len(shape) - 2, len(shape) - 1)))


def positive(x: Any) -> Any:
    """Return Hermitian positive definite matrices."""
    return spread(matmul(x, adjoint(x)))


def symmetric(x: Any) -> Any:
    """Return Hermitian matrices with values far apart."""
    return spread(add(x, adjoint(x)))


def solved(x: Any, y: Any, **options: bool) -> Any:
    return linalg.triangular_solve(spread(x), y, **options)


def solved_by_factors(x: Any, y: Any, *, trans: bool = False) -> Any:
    return linalg.linear_solve(spread(x), y, trans=trans)


def reduced(x: Any) -> Any:
    return orthogonal.geqrf(spread(x))


def eig(left: bool, right: bool) -> Callable[[Any], Any]:
    def apply(x: Any) -> Any:
        return spectral.eig(
            spread(x),
            compute_left_eigenvectors=left,
            compute_right_eigenvectors=right,
            enable_eigvec_derivs=True,
        )

    return apply


def svd(**options: Any) -> Callable[[Any], Any]:
    return lambda x: spectral.svd(spread(x), **options)


def qr(**options: Any) -> Callable[[Any], Any]:
    return lambda x: orthogonal.qr(spread(x), **options)


def phaseless_eigh(x: Any) -> Any:
    """Return what does not depend on the phases of eigenvectors: derivatives do not follow them."""
    vectors, values = spectral.eigh(symmetric(x))
    return [values, matmul(_numbered_columns(vectors), adjoint(vectors))]


def lower_cholesky(x: Any) -> Any:
    """Factor by the lower triangle of matrices that are not Hermitian."""
    return linalg.cholesky(spread(x), symmetrize_input=False)


def eigh_of_triangle(lower: bool) -> Callable[[Any], Any]:
    """Diagonalize by one triangle of matrices that are not Hermitian, without complex phases."""

    def apply(x: Any) -> Any:
        vectors, values = spectral.eigh(spread(x), lower=lower, symmetrize_input=False)
        if x.dtype.kind != "c":
            return [values, vectors]
        return [values, matmul(_numbered_columns(vectors), adjoint(vectors))]

    return apply


def phaseless_svd(x: Any) -> Any:
    """Return what does not depend on the phase that two singular vectors share."""
    u, values, vt = spectral.svd(spread(x), full_matrices=False)
    return [values, matmul(_numbered_columns(u), vt)]


def _numbered_columns(x: Any) -> Any:
    numbers = np.arange(1, x.shape[-1] + 1).astype(np.dtype(x.dtype))
    return scale_columns(x, numbers)


def _row(primitive: Any, apply: Any, operand: Operand, name: str = "", **more: Any) -> Case:
    return Case(primitive, apply, (operand,), name, differentiable=(0,), tolerance=1e-4, **more)


def _solve(x: Operand, y: Operand, name: str, **options: bool) -> Case:
    return Case(
        linalg.triangular_solve_p,
        lambda p, q: solved(p, q, **options),
        (x, y),
        name,
        differentiable=(0, 1),
        tolerance=1e-4,
    )


CHOLESKY = [
    _row(linalg.cholesky_p, lambda x: linalg.cholesky(positive(x)), STACK, named=N_STACK),
    _row(linalg.cholesky_p, lambda x: linalg.cholesky(positive(x)), COMPLEX),
    Case(
        linalg.cholesky_p,
        lambda x: linalg.cholesky(x, symmetrize_input=False),
        (Operand((2, 2, 2), values=[[[1, 9], [0, 1]], [[1, 2], [2, 1]]]),),
        "one triangle, one failure ",
        named=((0, 1), (0, 2)),
    ),
    _row(linalg.cholesky_p, lower_cholesky, STACK, "one triangle "),
    _row(linalg.cholesky_p, lower_cholesky, COMPLEX, "one triangle "),
    Case(linalg.cholesky_p, linalg.cholesky, (Operand((0, 0)),)),
]
TRIANGULAR = [
    _solve(SQUARE, RIGHT, "", left_side=True),
    _solve(SQUARE, Operand((2, 3)), "right "),
    _solve(SQUARE, Operand((2, 3)), "right transposed ", transpose_a=True, lower=True),
    _solve(STACK, Operand((2, 3, 2)), "stack ", left_side=True, lower=True),
    _solve(SQUARE, RIGHT, "unit transposed ", left_side=True, transpose_a=True, unit_diagonal=True),
    _solve(
        COMPLEX,
        Operand((3, 2), "complex64"),
        "adjoint ",
        left_side=True,
        lower=True,
        transpose_a=True,
        conjugate_a=True,
    ),
    _solve(COMPLEX, Operand((2, 3), "complex64"), "conjugate ", conjugate_a=True),
    Case(
        linalg.triangular_solve_p,
        lambda x, y: solved(x, y, left_side=True),
        (STACK, Operand((2, 3))),
        "vectors ",
        differentiable=(0, 1),
        named=((0, 0), (1, 0)),
        tolerance=1e-4,
    ),
    Case(
        linalg.triangular_solve_p,
        lambda x, y: solved(x, y, left_side=True),
        (Operand((3, 3), "bfloat16", -1, 1), Operand((3, 2), "bfloat16")),
        tolerance=1e-1,
    ),
    Case(linalg.triangular_solve_p, linalg.triangular_solve, (SQUARE, Operand((0, 3)))),
]
LU = [
    _row(linalg.lu_p, lambda x: linalg.lu(spread(x)), STACK, named=N_STACK),
    _row(linalg.lu_p, lambda x: linalg.lu(spread(x)), TALL),
    _row(linalg.lu_p, lambda x: linalg.lu(spread(x)), WIDE),
    _row(linalg.lu_p, lambda x: linalg.lu(spread(x)), TALL_COMPLEX),
    Case(linalg.lu_p, linalg.lu, (Operand((2, 2), values=[[0, 0], [0, 1]]),), "singular "),
    Case(linalg.lu_p, linalg.lu, (Operand((3, 0)),)),
    Case(
        pivots.lu_pivots_to_permutation_p,
        lambda x: pivots.lu_pivots_to_permutation(x, 5),
        (Operand((2, 3), "int32", values=[[4, 3, 2], [0, 2, 4]]),),
        named=N_STACK,
    ),
    Case(
        linalg.lu_solve_p,
        solved_by_factors,
        (STACK, Operand((2, 3, 2))),
        differentiable=(0, 1),
        named=((0, 0), (1, 0)),
        tolerance=1e-4,
    ),
    Case(
        linalg.lu_solve_p,
        lambda x, y: solved_by_factors(x, y, trans=True),
        (SQUARE, RIGHT),
        "transposed ",
        differentiable=(0, 1),
        tolerance=1e-4,
    ),
    Case(
        linalg.lu_solve_p,
        solved_by_factors,
        (COMPLEX, Operand((3, 2), "complex64")),
        differentiable=(0, 1),
        tolerance=1e-4,
    ),
]
ORTHOGONAL = [
    Case(orthogonal.geqrf_p, reduced, (STACK,), named=N_STACK, tolerance=1e-4),
    Case(orthogonal.geqrf_p, reduced, (TALL_COMPLEX,), tolerance=1e-4),
    Case(orthogonal.geqrf_p, reduced, (WIDE,), tolerance=1e-4),
    Case(orthogonal.geqp3_p, orthogonal.geqp3_p.bind, (STACK,), named=N_STACK, tolerance=1e-4),
    Case(
        orthogonal.householder_product_p,
        orthogonal.householder_product,
        (Operand((2, 4, 3)), Operand((2, 3))),
        named=((0, 0), (1, 0)),
        tolerance=1e-4,
    ),
    Case(
        orthogonal.householder_product_p,
        orthogonal.householder_product,
        (Operand((3, 2), "complex64"), Operand((1,), "complex64")),
        tolerance=1e-4,
    ),
    _row(orthogonal.qr_p, qr(), STACK, named=N_STACK),
    _row(orthogonal.qr_p, qr(), TALL),
    _row(orthogonal.qr_p, qr(full_matrices=False), TALL_COMPLEX, "reduced "),
    _row(orthogonal.qr_p, qr(full_matrices=False), TALL, "reduced "),
    _row(orthogonal.qr_p, qr(), WIDE),
    _row(orthogonal.qr_p, qr(), COMPLEX),
    _row(orthogonal.qr_p, qr(pivoting=True), TALL, "pivoting "),
    _row(orthogonal.qr_p, qr(pivoting=True, full_matrices=False), STACK, "pivoting "),
    Case(orthogonal.qr_p, orthogonal.qr, (Operand((3, 0)),)),
]
SPECTRAL = [
    _row(spectral.eigh_p, lambda x: spectral.eigh(symmetric(x)), STACK, named=N_STACK),
    _row(spectral.eigh_p, phaseless_eigh, COMPLEX),
    Case(spectral.eigh_p, lambda x: spectral.eigh(symmetric(x)), (COMPLEX,), tolerance=1e-4),
    Case(
        spectral.eigh_p,
        lambda x: spectral.eigh(spread(x), lower=False, symmetrize_input=False),
        (SQUARE,),
        "upper ",
        tolerance=1e-4,
    ),
    _row(spectral.eigh_p, eigh_of_triangle(True), STACK, "one triangle "),
    _row(spectral.eigh_p, eigh_of_triangle(False), STACK, "one triangle, upper "),
    _row(spectral.eigh_p, eigh_of_triangle(True), COMPLEX, "one triangle "),
    _row(spectral.eigh_p, eigh_of_triangle(False), COMPLEX, "one triangle, upper "),
    _row(spectral.svd_p, svd(), STACK, named=N_STACK),
    _row(spectral.svd_p, svd(full_matrices=False), TALL, "reduced "),
    _row(spectral.svd_p, svd(full_matrices=False), WIDE, "reduced "),
    _row(spectral.svd_p, svd(compute_uv=False), TALL_COMPLEX, "values "),
    _row(spectral.svd_p, svd(algorithm=spectral_algorithms.SvdAlgorithm.QR), SQUARE, "by qr "),
    _row(spectral.svd_p, phaseless_svd, TALL_COMPLEX),
    Case(spectral.svd_p, svd(), (TALL_COMPLEX,), tolerance=1e-4),
    Case(spectral.svd_p, spectral.svd, (Operand((0, 2)),)),
    _row(spectral.eig_p, eig(False, False), STACK, "values ", named=N_STACK),
    _row(spectral.eig_p, eig(True, True), SQUARE),
    _row(spectral.eig_p, eig(False, True), COMPLEX),
    Case(
        spectral.eig_p,
        spectral.eig,
        (Operand((2, 2), values=[[0, 1], [-1, 0]]),),
        "pairs ",
        tolerance=1e-4,
    ),
]
CASES = [*CHOLESKY, *TRIANGULAR, *LU, *ORTHOGONAL, *SPECTRAL]
