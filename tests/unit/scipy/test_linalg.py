"""Linear algebra is SciPy's: factors, systems, functions of matrices, structured matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg as reference

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.scipy import linalg

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(5, 5))
COMPLEX = REAL + 1j * RNG.normal(size=(5, 5))
WIDE = RNG.normal(size=(4, 6))
SIDES = RNG.normal(size=(5, 2))
DEFINITE = {"real": REAL @ REAL.T + np.eye(5), "complex": COMPLEX @ COMPLEX.conj().T + np.eye(5)}
GENERAL = {"real": REAL, "complex": COMPLEX}


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with kiln.enable_x64(True):
        yield


def near(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    """Compare one array, or several."""
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", DEFINITE)
@pytest.mark.parametrize("lower", [False, True])
def test_definite(kind: str, lower: bool) -> None:
    a = DEFINITE[kind]
    near(linalg.cholesky(a, lower), reference.cholesky(a, lower))
    near(linalg.cho_solve(linalg.cho_factor(a, lower), SIDES), np.linalg.solve(a, SIDES))
    near(linalg.solve(a, SIDES, lower, assume_a="pos"), np.linalg.solve(a, SIDES))
    values, vectors = linalg.eigh(a, lower=lower)
    near(values, reference.eigvalsh(a, lower=lower))
    near(a @ vectors, vectors * np.asarray(values))


def _definite_functions(lower: bool) -> dict[str, Any]:
    def factored(a: Any) -> Any:
        return linalg.cho_solve(linalg.cho_factor(a, lower), sides)

    sides = np.stack([SIDES, -SIDES])
    return {
        "cholesky": lambda a: linalg.cholesky(a, lower),
        "cho_solve": factored,
        "solve": lambda a: linalg.solve(a, sides, lower, assume_a="pos"),
        "values": lambda a: linalg.eigh(a, lower=lower)[0],
        "vectors": lambda a: jnp.abs(linalg.eigh(a, lower=lower)[1]),
    }


@pytest.mark.parametrize("kind", DEFINITE)
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("name", _definite_functions(True))
def test_derivatives_of_definite(kind: str, lower: bool, name: str) -> None:
    """Operands and tangents are not Hermitian: the derivative is that of what is computed."""
    fun = _definite_functions(lower)[name]
    a = np.stack([DEFINITE[kind] + 0.1 * GENERAL[kind], 2 * DEFINITE[kind]])
    t = np.stack([GENERAL[kind].T + GENERAL[kind] ** 2, GENERAL[kind][::-1]])
    _, found = kiln.jvp(fun, (jnp.asarray(a),), (jnp.asarray(t),))
    step = 1e-6
    near(found, (fun(a + step * t) - fun(a - step * t)) / (2 * step), 1e-6)
    weights = np.cos(np.arange(found.size)).reshape(found.shape)
    gradient = kiln.grad(lambda x: jnp.sum(fun(x).real * weights))(jnp.asarray(a))
    near(np.sum(np.real(gradient * t)), np.sum(np.real(found) * weights), 1e-8)


@pytest.mark.parametrize("kind", GENERAL)
def test_factors(kind: str) -> None:
    a = GENERAL[kind]
    near(linalg.lu(a), reference.lu(a))
    near(linalg.lu(a, True), reference.lu(a, True))
    for i, op in enumerate((a, a.T, a.conj().T)):
        near(linalg.lu_solve(linalg.lu_factor(a), SIDES, i), np.linalg.solve(op, SIDES))
        near(
            linalg.solve_triangular(a, SIDES, i, True),
            reference.solve_triangular(a, SIDES, i, True),
        )
    near(linalg.det(a), reference.det(a))
    near(linalg.inv(a), reference.inv(a))
    for output in ("real", "complex"):
        near(linalg.schur(a, output), reference.schur(a, output))
    h, q = linalg.hessenberg(a, calc_q=True)
    near(q @ h @ np.conj(q.T), a)
    near(h, reference.hessenberg(a))
    t, z = linalg.rsf2csf(*linalg.schur(a))
    near(z @ t @ np.conj(z.T), a)
    near(np.tril(t, -1), np.zeros((5, 5)))
    for side in ("left", "right"):
        near(linalg.polar(a, side), reference.polar(a, side))


@pytest.mark.parametrize("kind", GENERAL)
def test_functions(kind: str) -> None:
    a = GENERAL[kind]
    near(linalg.expm(a), reference.expm(a))
    near(linalg.expm(np.triu(a), upper_triangular=True), reference.expm(np.triu(a)))
    near(linalg.expm_frechet(a, a.T), reference.expm_frechet(a, a.T))
    near(linalg.sqrtm(a), reference.sqrtm(a), 1e-9)
    near(kiln.jit(lambda x: linalg.funm(x, jnp.sin))(a), reference.funm(a, np.sin), 1e-8)
    with override(numpy_rank_promotion="raise"):
        near(linalg.funm(a, jnp.sin), reference.funm(a, np.sin), 1e-8)
    expected = reference.solve_sylvester(a, a.T + 1, a * 2)
    for method in ("schur", "eigen"):
        near(linalg.solve_sylvester(a, a.T + 1, a * 2, method=method), expected, 1e-7)


def test_orthogonal() -> None:
    for mode in ("full", "economic", "r"):
        for pivoting in (False, True):
            found = linalg.qr(WIDE.T, mode=mode, pivoting=pivoting)
            expected = reference.qr(WIDE.T, mode=mode, pivoting=pivoting)
            near(tuple(map(np.abs, found)), tuple(map(np.abs, expected)))
    near(linalg.qr_multiply(WIDE.T, WIDE), reference.qr_multiply(WIDE.T, WIDE))
    near(
        linalg.qr_multiply(WIDE.T, WIDE[:, :3], "left", True),
        reference.qr_multiply(WIDE.T, WIDE[:, :3], "left", True),
    )
    near(linalg.svd(WIDE, compute_uv=False), reference.svd(WIDE, compute_uv=False))
    near(linalg.polar(WIDE, "left"), reference.polar(WIDE, "left"))


def test_tridiagonal() -> None:
    d, e = REAL[0], REAL[1, 1:]
    near(
        linalg.eigh_tridiagonal(d, e, eigvals_only=True),
        reference.eigh_tridiagonal(d, e, eigvals_only=True),
    )
    near(
        linalg.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(1, 3)),
        reference.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(1, 3)),
    )


def test_a_complex_diagonal_is_above_the_main_one() -> None:
    d, e = REAL[0], REAL[1, 1:] + 1j * REAL[2, 1:]
    values, vectors = linalg.eigh_tridiagonal(d, e)
    whole = np.diag(d) + np.diag(e, 1) + np.diag(e.conj(), -1)
    near(whole @ vectors, vectors * values)


def test_a_function_that_is_cut_along_the_real_axis() -> None:
    a = np.random.default_rng(0).normal(size=(9, 9))
    assert any(value.imag == 0 and value.real < 0 for value in np.linalg.eigvals(a))

    def power(x: Any) -> Any:
        return x**-2.718

    near(linalg.funm(a, power), reference.funm(a, power), 1e-8)


@pytest.mark.parametrize("diagonal", [[1, 0, 0], [0, 4, 0], [0, 0, 0, 9], [0, 0, 9, 0, 0, 4]])
def test_roots_of_singular_matrices(diagonal: list[float]) -> None:
    near(linalg.sqrtm(np.diag(diagonal).astype(float)), np.diag(np.sqrt(diagonal)).astype(complex))
    # Zeros over anything else: there is no root.
    assert not np.isfinite(linalg.sqrtm(np.array([[0.0, 1.0], [0.0, 0.0]]))).all()


@pytest.mark.parametrize(("a", "b"), [((4, 4), (3, 4, 2)), ((3, 4, 4), (4, 2)), ((3, 4, 4), (4,))])
def test_stacks_are_broadcast(a: Any, b: Any) -> None:
    rng = np.random.default_rng(0)
    matrices, sides = np.tril(rng.normal(size=a)) + 3 * np.eye(4), rng.normal(size=b)
    found = linalg.solve_triangular(matrices, sides, lower=True)
    left = np.einsum("...ij,...jk->...ik", matrices, found if len(b) > 1 else found[..., None])
    assert np.allclose(left, sides if len(b) > 1 else sides[:, None])
    factor = linalg.cho_factor(matrices @ np.swapaxes(matrices, -1, -2))
    assert linalg.cho_solve(factor, sides).shape == found.shape


def test_complex_forms_of_stacks() -> None:
    stack = np.stack([REAL, REAL.T])
    t, z = linalg.schur(stack)
    for t_given, z_given, rows in ((t, z, (0, 1)), (t[0], z, (0, 0)), (t, z[1], (0, 1))):
        found = linalg.rsf2csf(t_given, z_given)
        for i in range(2):
            one = z_given[i] if z_given.ndim == 3 else z_given
            expected = linalg.rsf2csf(t[rows[i]], one)
            for ours, theirs in zip(found, expected, strict=True):
                assert np.allclose(ours[i], theirs)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8])
def test_structured(n: int) -> None:
    p = np.arange(1.0, n + 2) ** 1.1
    for name in ("companion", "fiedler_companion", "circulant", "fiedler", "toeplitz", "hankel"):
        near(getattr(linalg, name)(p), getattr(reference, name)(p))
        stack = getattr(linalg, name)(np.stack([p, 2 * p]))
        near(stack[1], getattr(reference, name)(2 * p))
    for name in ("hilbert", "invhilbert", "pascal", "invpascal", "dft"):
        near(getattr(linalg, name)(n), getattr(reference, name)(n))
    near(linalg.helmert(n, True), reference.helmert(n, True))
    for kind in ("lower", "upper"):
        near(linalg.pascal(n, kind), reference.pascal(n, kind))
        near(linalg.invpascal(n, kind), reference.invpascal(n, kind))
    for mode in ("full", "same", "valid"):
        near(linalg.convolution_matrix(p, n, mode), reference.convolution_matrix(p, n, mode))
    near(linalg.leslie(p, p[1:]), reference.leslie(p, p[1:]))
    near(linalg.toeplitz(p, WIDE[0]), reference.toeplitz(p, WIDE[0]))
    near(linalg.hankel(p, WIDE[0]), reference.hankel(p, WIDE[0]))


def test_stacks_and_derivatives() -> None:
    both = np.stack([DEFINITE["real"], REAL @ REAL.T + 2])
    near(linalg.expm(both / 9), reference.expm(both / 9))
    near(linalg.sqrtm(both), np.stack([reference.sqrtm(x) for x in both]))
    near(kiln.vmap(linalg.schur)(both)[0], np.stack([reference.schur(x)[0] for x in both]))
    slope = kiln.grad(lambda x: linalg.expm(x).sum())(REAL)
    near(slope, reference.expm_frechet(REAL.T, np.ones((5, 5)), compute_expm=False))


def test_small_floats() -> None:
    assert linalg.expm(jnp.eye(2, dtype="bfloat16")).dtype == jnp.bfloat16
    assert linalg.sqrtm(jnp.eye(2, dtype="float32")).dtype == jnp.complex64
    assert np.isnan(linalg.expm(np.eye(2) * 1e9)).all()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: linalg.eigh(REAL, REAL), NotImplementedError, "b=None"),
        (lambda: linalg.qr(REAL, mode="thin"), ValueError, "Unsupported QR"),
        (lambda: linalg.solve(REAL, np.ones(3)), ValueError, "must have shapes"),
        (lambda: linalg.cholesky(WIDE), ValueError, "square"),
        (lambda: linalg.hadamard(3), ValueError, "power of 2"),
        (lambda: linalg.sqrtm(REAL, 2), NotImplementedError, "Blocked"),
        (lambda: linalg.solve_sylvester(REAL, REAL, WIDE), ValueError, "Incompatible"),
        (lambda: linalg.schur(REAL, "whole"), ValueError, "'real' or 'complex'"),
        (lambda: linalg.block_diag(np.ones((1, 1, 1))), ValueError, "2 dimensions"),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize("name", ["toeplitz", "hankel"])
@pytest.mark.parametrize(("column", "row"), [(0, None), (3, 0), (0, 4), (0, 0)])
def test_structured_without_entries(name: str, column: int, row: int | None) -> None:
    given = [np.zeros(column)] + ([] if row is None else [np.zeros(row)])
    found = getattr(linalg, name)(*given)
    assert found.shape == (column, column if row is None else row)
    stack = getattr(linalg, name)(*(np.zeros((2, *x.shape)) for x in given))
    assert stack.shape == (2, *found.shape)


@pytest.mark.parametrize("name", ["circulant", "fiedler"])
def test_square_without_entries(name: str) -> None:
    assert getattr(linalg, name)(np.zeros((2, 0))).shape == (2, 0, 0)


@pytest.mark.parametrize("method", ["schur", "eigen"])
def test_ranks_are_not_promoted_inside(method: str) -> None:
    a, b, c = np.diag([1.0, 2.0]), np.diag([3.0, 4.0, 5.0]), np.ones((2, 3))
    with override(numpy_rank_promotion="raise"):
        found = linalg.solve_sylvester(a, b, c, method=method)
    near(a @ found + found @ b, c)


@pytest.mark.parametrize("wide", [np.float32, np.complex64])
def test_polar_factors_of_a_corner(wide: Any) -> None:
    a = np.random.default_rng(0).normal(size=(6, 5)).astype(wide)
    a[:4, :3] += (1j * a[1:5, 1:4]).astype(wide) if wide is np.complex64 else 0

    def factors(a: Any, m: Any, n: Any) -> Any:
        return kiln.lax.linalg.qdwh(a, dynamic_shape=(m, n))[:2]

    with override(numpy_dtype_promotion="strict", numpy_rank_promotion="raise"):
        u, h = kiln.jit(factors)(a, 4, 3)
    expected, positive = reference.polar(a[:4, :3])
    np.testing.assert_allclose(u[:4, :3], expected, atol=1e-5)
    np.testing.assert_allclose(h[:3, :3], positive, atol=1e-5)


def test_functions_of_negative_eigenvalues_are_on_scipys_side_of_the_cut() -> None:
    power = lambda x: x**-2.718
    for seed in range(4):
        a = np.random.default_rng(seed).normal(size=(12, 12))
        expected = reference.funm(a, power)
        np.testing.assert_allclose(linalg.funm(a, power), expected, rtol=1e-5, atol=1e-6)
