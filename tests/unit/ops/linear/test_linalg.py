"""Decompositions where the generic checks do not look: errors, failures, conventions, cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.lax import linalg
from kiln.ops.linear.linalg import linear_solve, lu_solve_p
from kiln.ops.linear.orthogonal import qr_p

ENGINES = pytest.mark.parametrize("engine", ["reference", "xla"])


def matrix(*shape: int, dtype: str = "float32") -> Any:
    rng = np.random.default_rng(sum(shape))
    return from_host(rng.normal(size=shape).astype(dtype))


def names(fun: Callable[..., Any], *args: Any) -> list[str]:
    return [eqn.primitive.name for eqn in kiln.make_jaxpr(fun)(*args).eqns]


@pytest.mark.parametrize(
    "fun",
    [linalg.lu, linalg.qr, linalg.svd, linalg.eig, linalg.eigh, linalg.cholesky],
)
def test_vectors_integers_and_short_floats_are_refused(fun: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        fun(matrix(3))
    with pytest.raises(NotImplementedError, match="Unsupported dtype float16"):
        fun(matrix(3, 3, dtype="float16"))
    if fun not in (linalg.eigh, linalg.cholesky):
        with pytest.raises(TypeError, match="does not accept dtype int32 at position 0"):
            fun(from_host(np.ones((3, 3), np.int32)))


@pytest.mark.parametrize("fun", [linalg.eig, linalg.eigh, linalg.cholesky])
def test_rectangles_are_refused(fun: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a square matrix. Got shape \(2, 3\)"):
        fun(matrix(2, 3))


def test_triangular_solve_names_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"\(3, 3\) and \(4, 2\)"):
        linalg.triangular_solve(matrix(3, 3), matrix(4, 2), left_side=True)
    with pytest.raises(ValueError, match="first input to triangular_solve must be a square"):
        linalg.triangular_solve(matrix(2, 3), matrix(3, 2), left_side=True)
    with pytest.raises(TypeError, match="same dtypes, got float32, complex64"):
        linalg.triangular_solve(matrix(3, 3), matrix(3, 2, dtype="complex64"), left_side=True)


def test_other_operands_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="at least as many rows as columns"):
        linalg.householder_product(matrix(2, 3), matrix(2))
    with pytest.raises(ValueError, match="must not have more rows"):
        linalg.householder_product(matrix(3, 2), matrix(3))
    with pytest.raises(ValueError, match="permutation size 2 has to exceed"):
        linalg.lu_pivots_to_permutation(from_host(np.zeros(3, np.int32)), 2)
    with pytest.raises(TypeError, match="subtypes of int32"):
        linalg.lu_pivots_to_permutation(matrix(3), 3)
    with pytest.raises(NotImplementedError, match="not supported on CPU"):
        linalg.eigh(matrix(3, 3), implementation=linalg.EighImplementation.JACOBI)
    with pytest.raises(NotImplementedError, match="not supported on CPU"):
        linalg.svd(matrix(3, 3), algorithm=linalg.SvdAlgorithm.POLAR)
    with pytest.raises(ValueError, match="Only the lapack implementation"):
        linalg.eig(matrix(3, 3), implementation=linalg.EigImplementation.MAGMA)
    with pytest.raises(NotImplementedError, match="subset_by_index"):
        linalg.eigh(matrix(3, 3), subset_by_index=(0, 1))


@ENGINES
def test_a_matrix_that_is_not_definite_gives_nan(engine: str) -> None:
    x = from_host(np.stack([np.eye(2), -np.eye(2)]).astype(np.float32))
    with override(engine=engine):
        out = np.asarray(linalg.cholesky(x))
    np.testing.assert_array_equal(out[0], np.eye(2))
    assert np.isnan(out[1][np.tril_indices(2)]).all()
    assert out[1][0, 1] == 0


@ENGINES
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("algorithm", list(linalg.SvdAlgorithm)[:2])
def test_singular_values_of_numbers_that_are_not_finite(
    engine: str, bad: float, algorithm: Any
) -> None:
    # LAPACK itself never returns from some of these.
    x = np.stack([np.eye(3), np.eye(3)]).astype(np.float32)
    x[0, 0, 0] = bad
    with override(engine=engine):
        u, s, vt = map(np.asarray, linalg.svd(from_host(x), algorithm=algorithm))
    assert all(np.isnan(part[0]).all() for part in (u, s, vt))
    np.testing.assert_allclose(s[1], 1)


@ENGINES
def test_eigenvalues_of_numbers_that_are_not_finite(engine: str) -> None:
    with override(engine=engine):
        values, *_ = linalg.eig(from_host(np.full((2, 2), np.inf, np.float32)))
    assert np.isnan(np.asarray(values).real).all()


@ENGINES
def test_a_singular_matrix_still_has_factors(engine: str) -> None:
    with override(engine=engine):
        factors, pivots, permutation = linalg.lu(from_host(np.zeros((2, 2), np.float32)))
    np.testing.assert_array_equal(factors, np.zeros((2, 2)))
    np.testing.assert_array_equal(pivots, [0, 1])
    np.testing.assert_array_equal(permutation, [0, 1])


def test_eager_and_compiled_results_are_the_same() -> None:
    # The very same routines: no difference in any choice of sign.
    x = matrix(4, 5, 3)
    for fun in (linalg.svd, linalg.qr, linalg.lu):
        for a, b in zip(fun(x), kiln.jit(fun)(x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_factors_multiply_to_the_matrix() -> None:
    x = np.asarray(matrix(2, 5, 3))
    q, r = map(np.asarray, linalg.qr(x, full_matrices=False))
    np.testing.assert_allclose(q @ r, x, atol=1e-5)
    q, r, order = map(np.asarray, linalg.qr(x, pivoting=True))
    np.testing.assert_allclose(q @ r, np.take_along_axis(x, order[:, None], -1), atol=1e-5)
    assert (np.diff(np.abs(np.diagonal(r, axis1=-2, axis2=-1))) <= 0).all()
    factors, _, order = map(np.asarray, linalg.lu(x))
    lower = np.tril(factors, -1) + np.eye(5, 3, dtype=np.float32)
    permuted = np.take_along_axis(x, order[..., None], -2)
    np.testing.assert_allclose(lower @ np.triu(factors[:, :3]), permuted, atol=1e-5)
    reduced, taus = linalg.geqrf(x)
    q = np.asarray(linalg.householder_product(reduced, taus))
    np.testing.assert_allclose(q @ np.triu(np.asarray(reduced)[:, :3]), x, atol=1e-5)


def test_left_and_right_eigenvectors() -> None:
    x = np.asarray(matrix(4, 4))
    w, left, right = map(np.asarray, linalg.eig(x))
    np.testing.assert_allclose(x @ right, right * w, atol=1e-5)
    np.testing.assert_allclose(left.conj().T @ x, w[:, None] * left.conj().T, atol=1e-5)


def test_derivatives_of_eigenvectors_are_asked_for() -> None:
    x = matrix(3, 3)
    with pytest.raises(NotImplementedError, match="enable_eigvec_derivs=True"):
        kiln.jvp(linalg.eig, (x,), (x,))
    with pytest.raises(NotImplementedError, match="not implemented for full matrices"):
        kiln.jvp(linalg.svd, (matrix(3, 2),), (matrix(3, 2),))


def test_the_gradient_of_a_solution_needs_one_factorization() -> None:
    x, y = matrix(3, 3), matrix(3, 2)
    found = names(kiln.grad(lambda a, b: linear_solve(a, b).sum(), (0, 1)), x, y)
    assert found.count("lu") == 1
    assert found.count("lu_solve") == 2
    hessian = kiln.hessian(lambda a: linear_solve(a, y).sum())
    assert names(hessian, x).count("lu") == 1


def test_one_matrix_for_a_stack_of_right_sides_is_one_system() -> None:
    x, y = matrix(3, 3), matrix(5, 3, 2)
    jaxpr = kiln.make_jaxpr(
        kiln.vmap(lambda b: linalg.triangular_solve(x, b, left_side=True), in_axes=0)
    )(y)
    (solved,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "triangular_solve"]
    assert [v.aval.shape for v in solved.invars] == [(3, 3), (3, 10)]
    factors, _, permutation = linalg.lu(x)
    jaxpr = kiln.make_jaxpr(
        kiln.vmap(lambda b: lu_solve_p.bind(x, factors, permutation, b, trans=False))
    )(y)
    (solved,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "lu_solve"]
    assert solved.invars[-1].aval.shape == (3, 10)


def test_complex_derivative_of_square_roots() -> None:
    # f(A) = |L|^2 summed is the trace, whose gradient is the identity.
    x = np.eye(3) * 4 + 1j * (np.tri(3) - np.tri(3).T)
    x = from_host(x.astype(np.complex64))
    grad = kiln.grad(lambda a: abs(linalg.cholesky(a) ** 2).sum())(x)
    np.testing.assert_allclose(grad, np.eye(3), atol=1e-5)


def test_expanded_qr_is_qr() -> None:
    for shape in ((4, 2), (2, 4), (3, 3), (2, 0)):
        for full in (True, False):
            x = matrix(*shape)
            options = {"full_matrices": full, "pivoting": False, "use_magma": None}
            for a, b in zip(qr_p.expand(x, **options), qr_p.bind(x, **options), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-6)
