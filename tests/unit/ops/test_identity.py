"""stop_gradient, optimization_barrier and checkpoint_name as users meet them."""

from __future__ import annotations

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.ops.identity import checkpoint_name

X = np.array([1.0, 2.0], np.float32)


def test_stop_gradient_takes_pytrees():
    def f(x):
        fixed = lax.stop_gradient({"x": x, "n": 3})
        return (x * fixed["x"] * fixed["n"]).sum()

    np.testing.assert_allclose(kiln.grad(f)(X), 3 * X)
    np.testing.assert_allclose(kiln.jit(kiln.grad(kiln.jit(f)))(X), 3 * X)


def test_optimization_barrier_takes_pytrees():
    def f(x):
        out = lax.optimization_barrier({"x": x, "n": 3})
        return jnp.sin(out["x"]) * out["n"]

    np.testing.assert_allclose(f(X), 3 * np.sin(X), rtol=1e-6)
    slope = kiln.jit(kiln.vmap(kiln.grad(f)))(X)
    np.testing.assert_allclose(slope, 3 * np.cos(X), rtol=1e-6)
    assert "optimization_barrier" in kiln.jit(f).lower(X).as_text()


def test_checkpoint_name_shows_in_the_program():
    assert "name[name=a]" in str(kiln.make_jaxpr(lambda x: checkpoint_name(x, "a"))(1.0))
    np.testing.assert_allclose(
        kiln.vmap(kiln.grad(lambda x: checkpoint_name(x, "a") * x))(X), 2 * X
    )
