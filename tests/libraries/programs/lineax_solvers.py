"""Lineax: linear systems by every solver, with derivatives."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

jax.config.update("jax_enable_x64", True)

_random = np.random.RandomState(5)
GENERAL = _random.randn(5, 5) + 4 * np.eye(5)
POSITIVE = GENERAL @ GENERAL.T + np.eye(5)
TALL = _random.randn(8, 5)
VECTOR = _random.randn(5)
TALL_VECTOR = _random.randn(8)


def solve(solver, matrix, vector, *tags):
    """The solution, its derivatives, and solutions of several right sides."""

    def solution(matrix, vector):
        operator = lx.MatrixLinearOperator(matrix, tags)
        return lx.linear_solve(operator, vector, solver).value

    matrix, vector = jnp.asarray(matrix), jnp.asarray(vector)
    weights = jnp.arange(1.0, 6.0)
    grads = jax.jit(jax.grad(lambda a, b: weights @ solution(a, b), (0, 1)))(matrix, vector)
    _, tangent = jax.jvp(solution, (matrix, vector), (jnp.cos(matrix), jnp.ones_like(vector)))
    vectors = jnp.stack([vector, vector[::-1]])
    return {
        "solution": jax.jit(solution)(matrix, vector),
        "of_matrix": grads[0],
        "of_vector": grads[1],
        "tangent": tangent,
        "batched": jax.vmap(solution, (None, 0))(matrix, vectors),
    }


def tridiagonal():
    """A system of three diagonals, and its gradient."""
    operator = lx.TridiagonalLinearOperator(
        4 + jnp.arange(5.0), jnp.arange(1.0, 5.0), -jnp.arange(1.0, 5.0)
    )

    def solution(vector):
        return lx.linear_solve(operator, vector, lx.Tridiagonal()).value

    vector = jnp.asarray(VECTOR)
    return {"solution": solution(vector), "jacobian": jax.jacrev(solution)(vector)}


def operator_of_a_function():
    """A system given by a function on trees, solved without its matrix."""

    def function(tree):
        a, b = tree["a"], tree["b"]
        return {"a": 3 * a + 0.5 * b.sum(), "b": 2 * b + 0.5 * a}

    structure = jax.eval_shape(lambda: {"a": jnp.asarray(1.0), "b": jnp.ones(2)})
    operator = lx.FunctionLinearOperator(function, structure, lx.positive_semidefinite_tag)
    right = {"a": jnp.asarray(1.0), "b": jnp.asarray([2.0, 3.0])}
    found = lx.linear_solve(operator, right, lx.CG(rtol=1e-10, atol=1e-10))
    direct = lx.linear_solve(operator, right, lx.AutoLinearSolver(well_posed=True))
    return {
        "a": found.value["a"],
        "b": found.value["b"],
        "direct": direct.value["b"],
        "steps": found.stats["num_steps"],
    }


_close = {"rtol": 1e-12, "atol": 1e-12}
PROGRAMS = {
    "lu": functools.partial(solve, lx.LU(), GENERAL, VECTOR),
    "qr": functools.partial(solve, lx.QR(), TALL, TALL_VECTOR),
    "svd": functools.partial(solve, lx.SVD(), TALL, TALL_VECTOR),
    "auto": functools.partial(solve, lx.AutoLinearSolver(well_posed=None), GENERAL, VECTOR),
    "triangular": functools.partial(
        solve, lx.Triangular(), np.tril(GENERAL), VECTOR, lx.lower_triangular_tag
    ),
    "cholesky": functools.partial(
        solve, lx.Cholesky(), POSITIVE, VECTOR, lx.positive_semidefinite_tag
    ),
    "cg": functools.partial(solve, lx.CG(**_close), POSITIVE, VECTOR, lx.positive_semidefinite_tag),
    "gmres": functools.partial(solve, lx.GMRES(**_close), GENERAL, VECTOR),
    "bicgstab": functools.partial(solve, lx.BiCGStab(**_close), GENERAL, VECTOR),
    "normal_cg": functools.partial(solve, lx.NormalCG(**_close), TALL, TALL_VECTOR),
    "tridiagonal": tridiagonal,
    "operator_of_a_function": operator_of_a_function,
}
