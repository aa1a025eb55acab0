"""Jaxopt: its solvers on regressions, with derivatives of solutions."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import jaxopt
import numpy as np
from jaxopt import objective, projection, prox

jax.config.update("jax_enable_x64", True)

_random = np.random.RandomState(6)
INPUTS = _random.randn(30, 4)
TARGETS = INPUTS @ np.asarray([1.0, -2.0, 0.0, 0.5]) + 0.1 * _random.randn(30)
LABELS = (TARGETS > 0).astype(int)


def ridge(params, strength):
    """Squared errors with a penalty."""
    return jnp.mean((INPUTS @ params - TARGETS) ** 2) + strength * jnp.sum(params**2)


def penalized(make):
    """The solution, its number of iterations, and its derivative by the penalty."""
    solver = make(ridge)

    def solution(strength):
        return solver.run(jnp.zeros(4), strength).params

    found = solver.run(jnp.zeros(4), 0.1)
    return {
        "params": found.params,
        "iterations": found.state.iter_num,
        "derivative": jax.jacrev(solution)(0.1),
    }


def lasso():
    """Proximal descent, and the derivative of the solution by the penalty."""
    solver = jaxopt.ProximalGradient(objective.least_squares, prox.prox_lasso, tol=1e-8)

    def solution(strength):
        return solver.run(jnp.zeros(4), strength, (jnp.asarray(INPUTS), TARGETS)).params

    return {"params": solution(0.3), "derivative": jax.jacrev(solution)(0.3)}


def projected():
    """Descent on the simplex."""
    solver = jaxopt.ProjectedGradient(ridge, projection.projection_simplex, tol=1e-5)
    found = solver.run(jnp.full(4, 0.25), hyperparams_proj=1.0, strength=0.1)
    return {"params": found.params, "iterations": found.state.iter_num}


def quadratic_program():
    """A quadratic program with equations and inequations, and its gradient."""
    matrix = jnp.asarray(INPUTS.T @ INPUTS / 30)
    equation = (jnp.ones((1, 4)), jnp.ones(1))
    bounds = (-jnp.eye(4), jnp.zeros(4))
    solver = jaxopt.OSQP(tol=1e-9)

    def solution(linear):
        found = solver.run(params_obj=(matrix, linear), params_eq=equation, params_ineq=bounds)
        return found.params.primal

    linear = jnp.asarray([0.1, -0.3, 0.2, 0.0])
    return {"primal": solution(linear), "jacobian": jax.jacrev(solution)(linear)}


def logistic():
    """LBFGS on logistic regression in float32, jitted."""
    data = (jnp.asarray(INPUTS, jnp.float32), jnp.asarray(LABELS))

    def loss(params, data):
        return objective.binary_logreg(params, data) + 0.05 * jnp.sum(params**2)

    solver = jaxopt.LBFGS(loss, tol=1e-4)
    found = jax.jit(solver.run)(jnp.zeros(4, jnp.float32), data=data)
    return {"params": found.params}


def fixed_points():
    """Anderson's acceleration, and bisection."""
    anderson = jaxopt.AndersonAcceleration(lambda x, a: 0.5 * jnp.cos(x + a), tol=1e-10)
    bisection = jaxopt.Bisection(lambda x, a: x**3 - x - a, 0.0, 3.0, tol=1e-10)
    return {
        "anderson": anderson.run(jnp.zeros(3), jnp.arange(3.0)).params,
        "bisection": bisection.run(1.0, 2.0).params,
        "derivative": jax.grad(lambda a: bisection.run(1.0, a).params)(2.0),
    }


PROGRAMS = {
    "gradient_descent": functools.partial(
        penalized, lambda f: jaxopt.GradientDescent(f, tol=1e-5, maxiter=2000)
    ),
    "lbfgs": functools.partial(penalized, lambda f: jaxopt.LBFGS(f, tol=1e-9)),
    "bfgs": functools.partial(penalized, lambda f: jaxopt.BFGS(f, tol=1e-9)),
    "nonlinear_cg": functools.partial(penalized, lambda f: jaxopt.NonlinearCG(f, tol=1e-8)),
    "scipy": functools.partial(
        penalized, lambda f: jaxopt.ScipyMinimize(fun=f, method="L-BFGS-B", tol=1e-12)
    ),
    "lasso": lasso,
    "projected": projected,
    "quadratic_program": quadratic_program,
    "logistic": logistic,
    "fixed_points": fixed_points,
}
