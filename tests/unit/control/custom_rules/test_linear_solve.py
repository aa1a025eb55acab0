"""What the generic checks of `custom_linear_solve` do not see: the way back, errors, recording."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln import numpy as knp

MATRIX = np.array([[3.0, 1.0, 0.0], [-1.0, 4.0, 0.5], [0.0, 2.0, 5.0]], np.float32)
RIGHT = np.array([1.0, -2.0, 0.5], np.float32)


def jacobi(product: Any, b: Any, diagonal: Any) -> Any:
    """Solve by thirty Jacobi steps: a loop that reverse mode cannot go back through."""

    def step(state: Any) -> Any:
        i, x = state
        return i + 1, x + (b - product(x)) / diagonal

    return lax.while_loop(lambda state: state[0] < 60, step, (0, b * 0))[1]


def solution(matrix: Any, b: Any) -> Any:
    diagonal = lax.stop_gradient(knp.diagonal(matrix))
    return lax.custom_linear_solve(
        lambda x: matrix @ x,
        b,
        lambda matvec, y: jacobi(matvec, y, diagonal),
        lambda vecmat, y: jacobi(vecmat, y, diagonal),
    )


def direct(matrix: Any, b: Any) -> Any:
    return knp.linalg.solve(matrix, b)


def loss(solve: Any) -> Any:
    return lambda matrix, b: (solve(matrix, b) ** 2).sum()


@pytest.mark.parametrize("wrap", [lambda f: f, kiln.jit], ids=["eager", "jit"])
def test_a_loop_is_differentiated_as_the_system_it_solves(engine: str, wrap: Any) -> None:
    for transform in (
        lambda f: kiln.grad(loss(f), (0, 1)),
        lambda f: lambda m, b: kiln.jvp(f, (m, b), (m * 0.1, b)),
        lambda f: kiln.jacrev(f, 1),
        lambda f: kiln.hessian(loss(f), 1),
        lambda f: kiln.grad(lambda m, b: loss(kiln.checkpoint(f))(m, b)),
    ):
        found, expected = wrap(transform(solution))(MATRIX, RIGHT), transform(direct)(MATRIX, RIGHT)
        for x, y in zip(kiln.tree.leaves(found), kiln.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (2, 1)])
def test_mapped_and_differentiated(engine: str, axes: Any) -> None:
    operands = [
        np.stack([x, x * 1.5], axis) if axis is not None else x
        for x, axis in zip((MATRIX, RIGHT), axes, strict=True)
    ]
    for order in (
        lambda f: kiln.vmap(kiln.grad(loss(f), (0, 1)), axes),
        lambda f: kiln.grad(lambda m, b: kiln.vmap(loss(f), axes)(m, b).sum(), (0, 1)),
    ):
        found, expected = order(solution)(*operands), order(direct)(*operands)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-5)


def test_inside_a_scan() -> None:
    def run(solve: Any) -> Any:
        return lambda m: lax.scan(lambda c, b: (solve(m, c + b), c), RIGHT, np.eye(3, dtype="f4"))

    found = kiln.jit(kiln.grad(lambda m: run(solution)(m)[0].sum()))(MATRIX)
    expected = kiln.grad(lambda m: run(direct)(m)[0].sum())(MATRIX)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)


def test_symmetric_needs_no_transposed_solve() -> None:
    symmetric = MATRIX + MATRIX.T

    def solve(m: Any, b: Any) -> Any:
        diagonal = lax.stop_gradient(knp.diagonal(m))
        return lax.custom_linear_solve(
            lambda x: m @ x, b, lambda mv, y: jacobi(mv, y, diagonal), symmetric=True
        )

    np.testing.assert_allclose(
        kiln.grad(loss(solve), 1)(symmetric, RIGHT),
        kiln.grad(loss(direct), 1)(symmetric, RIGHT),
        rtol=1e-4,
    )


def test_named_sizes_are_given_their_values() -> None:
    def solve(d: Any, b: Any) -> Any:
        divide = lambda _, y: y / d
        return lax.custom_linear_solve(lambda x: d * x, b, divide, divide)

    named = kiln.jit(solve, abstracted_axes=({0: "n"}, {0: "n"}))
    for size in (3, 4):
        d, ones = np.arange(1, size + 1, dtype=np.float32), np.ones(size, np.float32)
        found = kiln.grad(lambda d, b: named(d, b).sum())(d, ones)
        np.testing.assert_allclose(found, -1 / d**2, rtol=1e-5)


def test_named_parameters() -> None:
    program = kiln.make_jaxpr(solution)(MATRIX, RIGHT)
    (eqn,) = [e for e in program.eqns if e.primitive.name == "custom_linear_solve"]
    assert sorted(eqn.params) == ["const_lengths", "jaxprs"]
    assert eqn.params["jaxprs"]._fields == ("matvec", "vecmat", "solve", "transpose_solve")


def test_recorded_twice_it_is_one_program() -> None:
    first, second = (kiln.make_jaxpr(solution)(MATRIX, RIGHT) for _ in range(2))
    pairs = zip(first.eqns[-1].params["jaxprs"], second.eqns[-1].params["jaxprs"], strict=True)
    assert all(a is b for a, b in pairs)


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda b: lax.custom_linear_solve(2, b, lambda m, y: y), TypeError, "matvec should be"),
        (
            lambda b: lax.custom_linear_solve(lambda x: x[:1], b, lambda m, y: y),
            ValueError,
            "matvec() output shapes must match b, got [(1,)] and [(3,)]",
        ),
        (
            lambda b: lax.custom_linear_solve(lambda x: x, b, lambda m, y: (y,)),
            TypeError,
            "solve() output pytree structure must match b",
        ),
        (
            lambda b: lax.custom_linear_solve(lambda x: x, b, lambda m, y: y, has_aux=True),
            ValueError,
            "must return a pair",
        ),
        (
            lambda b: kiln.grad(
                lambda b: lax.custom_linear_solve(lambda x: x, b, lambda m, y: y).sum()
            )(b),
            TypeError,
            "transpose_solve required for backwards mode automatic differentiation",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], phrase: str) -> None:
    with pytest.raises(error) as caught:
        call(RIGHT)
    assert phrase in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3
