"""Linear algebra with NumPy's names, where the answers of jax are not the measure."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.numpy.linalg.factorizations import _cheapest

RNG = np.random.default_rng(0)


def adjugate(x: np.ndarray) -> np.ndarray:
    count = len(x)
    minors = [
        [np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(count)]
        for i in range(count)
    ]
    return np.array(minors) * (-1.0) ** np.add.outer(np.arange(count), np.arange(count))


@pytest.mark.parametrize("zero", range(4))
def test_the_gradient_of_the_determinant_of_a_matrix_without_full_rank(zero: int) -> None:
    # The reference library gives zeros unless the last pivot is the one that is zero.
    x = np.diag(np.where(np.arange(4) == zero, 0.0, [1.0, 2.0, 3.0, 4.0])).astype(np.float32)
    np.testing.assert_allclose(kiln.grad(jnp.linalg.det)(x), adjugate(x), atol=1e-5)


def test_the_gradient_of_the_determinant_of_a_matrix_of_low_rank_is_zero() -> None:
    x = np.diag([0.0, 2.0, 0.0, 4.0]).astype(np.float32)
    np.testing.assert_array_equal(kiln.grad(jnp.linalg.det)(x), np.zeros((4, 4)))


def test_determinants_of_stacks_under_every_transformation() -> None:
    x = RNG.normal(size=(3, 4, 4)).astype(np.float32)
    expected = np.stack([adjugate(m) for m in x])
    grads = kiln.jit(kiln.vmap(kiln.grad(jnp.linalg.det)))(x)
    np.testing.assert_allclose(grads, expected, rtol=1e-4, atol=1e-4)


def test_solve_and_its_gradient() -> None:
    a = RNG.normal(size=(4, 4)).astype(np.float32) + 4 * np.eye(4, dtype=np.float32)
    b = RNG.normal(size=4).astype(np.float32)
    x = np.linalg.solve(a, b)
    da, db = kiln.grad(lambda a, b: jnp.linalg.solve(a, b).sum(), (0, 1))(a, b)
    pulled = np.linalg.solve(a.T, np.ones(4))
    np.testing.assert_allclose(db, pulled, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(da, -np.outer(pulled, x), rtol=1e-4, atol=1e-5)


def test_solve_of_one_matrix_and_a_stack_is_one_system() -> None:
    a, b = np.eye(3, dtype=np.float32) * 2, RNG.normal(size=(5, 3, 2)).astype(np.float32)
    jaxpr = kiln.make_jaxpr(jnp.linalg.solve)(a, b)
    (solved,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "lu_solve"]
    assert solved.invars[-1].aval.shape == (3, 10)
    np.testing.assert_allclose(jnp.linalg.solve(a, b), b / 2, rtol=1e-6)


def test_results_have_names() -> None:
    x = np.eye(2, dtype=np.float32)
    assert jnp.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert jnp.linalg.eig(x)._fields == ("eigenvalues", "eigenvectors")
    assert jnp.linalg.svd(x)._fields == ("U", "S", "Vh")
    assert jnp.linalg.qr(x)._fields == ("Q", "R")
    assert jnp.linalg.slogdet(x)._fields == ("sign", "logabsdet")


def test_the_order_of_a_chain_is_the_cheapest() -> None:
    # (100x2)(2x100)(100x1): the last two first.
    assert _cheapest([(100, 2), (2, 100), (100, 1)])[0, 2] == 0
    assert _cheapest([(1, 100), (100, 2), (2, 100)])[0, 2] == 1


def test_the_pseudo_inverse_of_equal_singular_values_has_a_derivative() -> None:
    x = np.eye(3, 2, dtype=np.float32)
    t = RNG.normal(size=(3, 2)).astype(np.float32)
    _, moved = kiln.jvp(jnp.linalg.pinv, (x,), (t,))
    step = 1e-2
    slope = (np.linalg.pinv(x + step * t) - np.linalg.pinv(x - step * t)) / (2 * step)
    np.testing.assert_allclose(moved, slope, atol=1e-3)


def test_under_jit_and_vmap() -> None:
    x = RNG.normal(size=(3, 4, 4)).astype(np.float32)
    spd = x @ x.swapaxes(-1, -2) + 4 * np.eye(4, dtype=np.float32)
    for name in ("inv", "det", "cholesky", "eigvalsh", "svdvals", "pinv", "matrix_rank"):
        fun = getattr(jnp.linalg, name)
        for mapped in (kiln.jit(fun), kiln.vmap(fun), kiln.jit(kiln.vmap(fun))):
            expected = getattr(np.linalg, name)(spd)
            np.testing.assert_allclose(mapped(spd), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("ord", [1, 2, np.inf, "fro", "nuc"])
@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0)])
def test_norms_of_no_elements(shape: tuple[int, ...], ord: object) -> None:
    assert jnp.linalg.matrix_norm(np.zeros(shape, np.float32), ord=ord) == 0


def test_a_matrix_of_zeros_has_no_rank() -> None:
    x, residuals, rank, values = jnp.linalg.lstsq(np.zeros((3, 1)), np.ones(3), numpy_resid=True)
    assert residuals.shape == (0,) and rank == 0
    assert x.tolist() == [0.0] and values.tolist() == [0.0]


@pytest.mark.parametrize(("a", "b"), [((0, 3), (0,)), ((0, 0), (0, 2)), ((3, 0), (3, 2))])
def test_residuals_of_no_elements_are_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    a_, b_ = np.ones(a, np.float32), np.ones(b, np.float32)
    expected = np.linalg.lstsq(a_, b_, rcond=None)[1]
    found = jnp.linalg.lstsq(a_, b_, numpy_resid=True)[1]
    # NumPy's are not computed where there is no column: they are of zeros, not of b.
    assert found.shape == expected.shape


@pytest.mark.parametrize("shape", [(100_000, 2), (2, 100_000)])
def test_slopes_of_an_inverse_of_long_matrices_need_no_square_of_them(
    shape: tuple[int, int],
) -> None:
    x, t = (kiln.random.normal(kiln.random.key(i), shape) for i in range(2))
    inverse, moved = kiln.jvp(jnp.linalg.pinv, (x,), (t,))
    assert moved.shape == shape[::-1]
    # The change of a p a = a.
    if shape[1] == 2:
        both = t @ (inverse @ x) + x @ (moved @ x) + x @ (inverse @ t)
    else:
        both = (t @ inverse) @ x + (x @ moved) @ x + (x @ inverse) @ t
    np.testing.assert_allclose(both, t, atol=1e-4)
    assert kiln.grad(lambda x: jnp.linalg.pinv(x).sum())(x).shape == shape
