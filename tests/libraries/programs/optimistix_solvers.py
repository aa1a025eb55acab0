"""Optimistix: roots, fixed points, least squares and minima by every solver, with gradients."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix as optx

jax.config.update("jax_enable_x64", True)

_close = {"rtol": 1e-9, "atol": 1e-9}
# With a closer one, the last steps are decided by the rounding of the function's value.
_decided = {"rtol": 1e-5, "atol": 1e-5}
START = jnp.asarray([2.0, 1.0, 0.3])
ARGUMENT = jnp.asarray([0.3, 0.5, -0.2])
TIMES = jnp.linspace(0.0, 3.0, 12)
MEASURED = 2.5 * np.exp(-1.3 * TIMES) + 0.1 * np.cos(5 * TIMES)


def equations(y, a):
    """Zero at a point near the start."""
    return y + 0.2 * jnp.sin(y[::-1] * y) - jnp.cos(a)


def contraction(y, a):
    """A function with a fixed point."""
    return 0.5 * jnp.cos(y[::-1] + a)


def valley(y, a):
    """A curved valley whose lowest point depends on the argument."""
    return jnp.sum((y[:-1] - a[:-1]) ** 2 + 5 * (y[1:] - y[:-1] ** 2) ** 2)


def residuals(y, a):
    """How far a decay is from what was measured."""
    return y[0] * jnp.exp(-y[1] * TIMES) + y[2] - MEASURED + 0.01 * a[0]


def found_by(solve, function, solver, **options):
    """The solution, its number of steps, and its derivative by the argument."""

    def solution(argument):
        return solve(function, solver, START, args=argument, max_steps=1000, **options)

    found = solution(ARGUMENT)
    jacobian = jax.jit(jax.jacrev(lambda argument: solution(argument).value))(ARGUMENT)
    return {"value": found.value, "jacobian": jacobian, "steps": found.stats["num_steps"]}


def interval():
    """The zero of a function between two points, and its derivative."""

    def zero(a):
        options = {"lower": 0.0, "upper": 3.0}
        solver = optx.Bisection(rtol=1e-10, atol=1e-10)

        def cubic(y, a):
            return y**3 - y - a

        return optx.root_find(cubic, solver, jnp.asarray(1.0), args=a, options=options).value

    value, gradient = jax.value_and_grad(zero)(jnp.asarray(2.0))
    return {"value": value, "gradient": gradient}


_root = functools.partial(found_by, optx.root_find, equations)
_fixed = functools.partial(found_by, optx.fixed_point, contraction)
_squares = functools.partial(found_by, optx.least_squares, residuals)
_minimum = functools.partial(found_by, optx.minimise, valley)

PROGRAMS = {
    "newton": functools.partial(_root, optx.Newton(**_close)),
    "chord": functools.partial(_root, optx.Chord(**_close)),
    "dogleg_root": functools.partial(_root, optx.Dogleg(**_close)),
    "fixed_point": functools.partial(_fixed, optx.FixedPointIteration(**_close)),
    "gauss_newton": functools.partial(_squares, optx.GaussNewton(**_decided)),
    "levenberg_marquardt": functools.partial(_squares, optx.LevenbergMarquardt(**_decided)),
    "dogleg": functools.partial(_squares, optx.Dogleg(**_decided)),
    "bfgs": functools.partial(_minimum, optx.BFGS(**_decided)),
    "lbfgs": functools.partial(_minimum, optx.LBFGS(**_decided)),
    "nonlinear_cg": functools.partial(_minimum, optx.NonlinearCG(**_decided)),
    "nelder_mead": functools.partial(_minimum, optx.NelderMead(**_decided)),
    "optax": functools.partial(
        _minimum, optx.OptaxMinimiser(optax.adam(3e-2), rtol=1e-5, atol=1e-5)
    ),
    "interval": interval,
}
