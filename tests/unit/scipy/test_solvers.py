"""Iterative solvers, minimization and rotations agree with NumPy and SciPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.spatial.transform

import kiln
import kiln.numpy as jnp
from kiln.scipy.optimize import minimize
from kiln.scipy.sparse.linalg import bicgstab, cg, gmres
from kiln.scipy.spatial.transform import Rotation, Slerp

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(30, 30))
GENERAL = DENSE + 15 * np.eye(30)
DEFINITE = DENSE @ DENSE.T + np.eye(30)
COMPLEX = GENERAL + 1j * DENSE.T
SIDE = RNG.normal(size=30)
LIMITED = "l-bfgs-experimental-do-not-rely-on-this"


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with kiln.enable_x64(True):
        yield


@pytest.mark.parametrize(
    ("solver", "matrix"),
    [
        (cg, DEFINITE),
        (cg, COMPLEX @ COMPLEX.conj().T),
        (bicgstab, GENERAL),
        (bicgstab, COMPLEX),
        (gmres, GENERAL),
        (gmres, COMPLEX),
    ],
)
def test_solvers(solver: Callable[..., Any], matrix: np.ndarray) -> None:
    expected = np.linalg.solve(matrix, SIDE)
    np.testing.assert_allclose(solver(matrix, SIDE, tol=1e-12)[0], expected, atol=1e-7)
    jacobi = np.diag(1 / np.diag(matrix))
    found = solver(lambda x: matrix @ x, SIDE, tol=1e-12, M=jacobi)[0]
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize(("solver", "matrix"), [(cg, DEFINITE), (gmres, GENERAL)])
def test_derivatives_are_those_of_the_solution(solver: Any, matrix: np.ndarray) -> None:
    slope = kiln.grad(lambda b: (solver(matrix, b, tol=1e-12)[0] ** 2).sum())(SIDE)
    expected = 2 * np.linalg.solve(matrix.T, np.linalg.solve(matrix, SIDE))
    np.testing.assert_allclose(slope, expected, atol=1e-6)


def test_trees() -> None:
    side = {"a": SIDE, "b": SIDE[:2]}
    found, _ = cg(lambda x: {"a": 2 * x["a"], "b": 3 * x["b"]}, side, tol=1e-10)
    np.testing.assert_allclose(found["b"], SIDE[:2] / 3)


def _rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def _himmelblau(p: Any) -> Any:
    return (p[0] ** 2 + p[1] - 11) ** 2 + (p[0] + p[1] ** 2 - 7) ** 2


@pytest.mark.parametrize("method", ["BFGS", LIMITED])
@pytest.mark.parametrize(
    ("fun", "start"), [(_rosenbrock, np.zeros(4)), (_himmelblau, np.full(2, 0.1))]
)
def test_minimize(fun: Any, start: np.ndarray, method: str) -> None:
    found = kiln.jit(lambda x: minimize(fun, x, method=method))(start)
    expected = scipy.optimize.minimize(fun, start, method="BFGS")
    assert bool(found.success)
    assert int(found.status) == 0
    assert int(found.nfev) < 80
    np.testing.assert_allclose(found.x, expected.x, atol=2e-5)
    np.testing.assert_allclose(found.jac, 0, atol=1e-5)


def test_minimize_stops_after_maxiter() -> None:
    found = minimize(_rosenbrock, jnp.zeros(4), method="BFGS", options={"maxiter": 3})
    assert (int(found.nit), int(found.status), bool(found.success)) == (3, 1, False)


QUATERNIONS = RNG.normal(size=(7, 4))
OURS = Rotation.from_quat(QUATERNIONS)
THEIRS = scipy.spatial.transform.Rotation.from_quat(QUATERNIONS)


def test_rotations() -> None:
    ours, theirs = Rotation.from_quat(QUATERNIONS), THEIRS
    vectors, weights = RNG.normal(size=(7, 3)), RNG.uniform(size=7)
    matrices = theirs.as_matrix()
    for found, expected in (
        (ours.as_quat(), theirs.as_quat()),
        (ours.as_quat(True, True), theirs.as_quat(canonical=True, scalar_first=True)),
        (ours.as_matrix(), matrices),
        (Rotation.from_matrix(matrices).as_matrix(), matrices),
        (ours.as_rotvec(True), theirs.as_rotvec(degrees=True)),
        (Rotation.from_rotvec(theirs.as_rotvec()).as_matrix(), matrices),
        (ours.as_mrp(), theirs.as_mrp()),
        (Rotation.from_mrp(theirs.as_mrp()).as_matrix(), matrices),
        (ours.magnitude(), theirs.magnitude()),
        ((ours * ours[::-1]).inv().as_matrix(), (theirs * theirs[::-1]).inv().as_matrix()),
        (ours.apply(vectors), theirs.apply(vectors)),
        (ours.apply(vectors[0], True), theirs.apply(vectors[0], True)),
        (ours.mean(weights).as_matrix(), theirs.mean(weights).as_matrix()),
        (Slerp.init(jnp.arange(7.0), ours)(2.3).as_matrix(), _slerp(2.3)),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert len(ours) == 7
    assert not ours.single
    assert Rotation.random(kiln.random.key(0), 5).quat.shape == (5, 4)


def _slerp(time: float) -> np.ndarray:
    return scipy.spatial.transform.Slerp(np.arange(7.0), THEIRS)(time).as_matrix()


@pytest.mark.parametrize("seq", ["xyz", "XYZ", "zxz", "ZXZ", "YXZ", "xzx"])
def test_euler(seq: str) -> None:
    ours = Rotation.from_quat(QUATERNIONS)
    np.testing.assert_allclose(ours.as_euler(seq, True), THEIRS.as_euler(seq, True), atol=1e-9)
    for middle in (0, np.pi / 2, -np.pi / 2, np.pi, 0.7):
        angles = np.array([0.3, middle, 0.5])
        theirs = scipy.spatial.transform.Rotation.from_euler(seq, angles)
        found = Rotation.from_euler(seq, angles)
        np.testing.assert_allclose(found.as_matrix(), theirs.as_matrix(), atol=1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_allclose(found.as_euler(seq), theirs.as_euler(seq), atol=1e-6)


def test_a_rotation_by_nothing_has_derivatives() -> None:
    slope = kiln.grad(lambda v: Rotation.from_rotvec(v).as_matrix()[0, 1])(jnp.zeros(3))
    np.testing.assert_allclose(slope, [0, 0, -1], atol=1e-14)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: cg(np.ones((2, 3)), SIDE), ValueError, "square matrix"),
        (lambda: cg("matrix", SIDE), TypeError, "function or ndarray"),
        (lambda: cg(DEFINITE, SIDE, SIDE[:2]), ValueError, "matching shapes"),
        (lambda: gmres(GENERAL, SIDE, solve_method="fast"), ValueError, "solve_method"),
        (lambda: minimize(_rosenbrock, SIDE, method="simplex"), ValueError, "not recognized"),
        (lambda: minimize(_rosenbrock, GENERAL, method="BFGS"), TypeError, "vector"),
        (lambda: minimize(_rosenbrock, SIDE, method="BFGS", options={"a": 1}), ValueError, "'a'"),
        (lambda: Rotation.from_euler("xq", SIDE[:2]), ValueError, "Expected axes"),
        (lambda: Rotation.identity()[0], TypeError, "not subscriptable"),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 3


class Doubled:
    """An operator that is not an array: it has a shape, and multiplies."""

    shape = (3, 3)

    def __matmul__(self, x):
        return 2 * x


@pytest.mark.parametrize("solver", ["cg", "bicgstab", "gmres"])
def test_operators_that_define_a_product(solver):
    b = np.arange(9.0).reshape(3, 3)
    found, _ = getattr(kiln.scipy.sparse.linalg, solver)(Doubled(), b)
    np.testing.assert_allclose(found, b / 2)


def test_complex_numbers_are_minimized_over_by_their_parts() -> None:
    target = np.array([1, 2 - 3j, 4, -5j], np.complex64)

    def distance(z: Any) -> Any:
        return jnp.sum(jnp.abs(z - target) ** 2)

    method = "l-bfgs-experimental-do-not-rely-on-this"
    found = minimize(distance, jnp.zeros_like(target), method=method)
    assert found.success
    np.testing.assert_allclose(found.x, target, atol=1e-4)
    assert found.jac.dtype == np.complex64
    start = target + 1
    stopped = minimize(distance, start, method=method, options={"maxiter": 0})
    np.testing.assert_allclose(stopped.jac, kiln.grad(distance)(start), rtol=1e-5)
