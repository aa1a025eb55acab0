"""Closures become arguments; functions that return their own derivative."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp

X = np.array([1.0, 2.0, 3.0], np.float32)


def test_closure_convert_hoists_inexact_values():
    weight, count = jnp.arange(3.0), jnp.arange(3)

    def fun(x):
        return {"y": x * weight + count}

    converted, values = kiln.closure_convert(fun, jnp.ones(3))
    assert len(values) == 1
    np.testing.assert_allclose(converted(X, *values)["y"], X * weight + count)
    np.testing.assert_allclose(converted(X, 2.0 * values[0])["y"], X * 2 * np.arange(3.0) + count)


def test_closure_convert_under_grad():
    def loss(w):
        converted, values = kiln.closure_convert(lambda x: x * w, 2.0)
        return converted(2.0, *values)

    assert float(kiln.grad(loss)(3.0)) == 2.0


def test_custom_gradient():
    @kiln.custom_gradient
    def f(x):
        return x * x, lambda ct: (3.0 * ct * x,)

    assert float(f(3.0)) == 9.0
    assert float(kiln.grad(f)(5.0)) == 15.0
    assert float(kiln.jit(kiln.grad(f))(5.0)) == 15.0
    assert float(kiln.grad(kiln.jit(f))(5.0)) == 15.0
    np.testing.assert_allclose(kiln.vmap(kiln.grad(f))(X), 3 * X)


def test_custom_gradient_of_several_arguments():
    @kiln.custom_gradient
    def f(x, y):
        return x * y, lambda ct: (ct * y, 7.0 * ct)

    assert [float(g) for g in kiln.grad(f, (0, 1))(2.0, 3.0)] == [3.0, 7.0]


def test_values_are_given_one_by_one() -> None:
    _, pull = kiln.vjp(lambda x, z: z * x, 2.0, 3.0)
    pure, values = kiln.closure_convert(pull, 2.0)
    assert [float(x) for x in pure(2.0, *values)] == [6.0, 4.0]
    with pytest.raises(TypeError, match="The inputs to the closure produced by closure_convert"):
        pure(2.0, values)
