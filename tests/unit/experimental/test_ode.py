"""Ordinary differential equations: solutions, derivatives, trees, refusals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import kiln
import kiln.numpy as jnp
from kiln.experimental.ode import odeint

TIMES = np.linspace(0, 3, 7)


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with kiln.enable_x64(True):
        yield


def pendulum(y: Any, t: Any, g: Any, length: Any) -> Any:
    return jnp.stack([y[1], -g / length * jnp.sin(y[0]) - 0.1 * y[1]])


def test_a_pendulum() -> None:
    start = np.array([1.0, 0.2])
    found = odeint(pendulum, start, TIMES, 9.8, 1.5)
    expected = scipy.integrate.odeint(
        lambda y, t: [y[1], -9.8 / 1.5 * np.sin(y[0]) - 0.1 * y[1]], start, TIMES, rtol=1e-12
    )
    np.testing.assert_allclose(found, expected, atol=3e-7)


def test_derivatives_by_everything() -> None:
    def last(start: Any, times: Any, g: Any, length: Any) -> Any:
        return odeint(pendulum, start, times, g, length, rtol=1e-10, atol=1e-10)[-1, 0]

    places = (np.array([1.0, 0.2]), TIMES, np.array(9.8), np.array(1.5))
    slopes = kiln.jit(kiln.grad(last, (0, 1, 2, 3)))(*places)
    fun = kiln.jit(last)
    for i, slope in enumerate(slopes):
        direction = np.random.default_rng(i).normal(size=places[i].shape)
        up, down = (
            fun(*places[:i], places[i] + h * direction, *places[i + 1 :]) for h in (1e-4, -1e-4)
        )
        expected = float(up - down) / 2e-4
        assert math.isclose(float((slope * direction).sum()), expected, rel_tol=1e-4, abs_tol=1e-6)


def test_what_is_closed_over_has_derivatives() -> None:
    def last(rate: Any) -> Any:
        return odeint(lambda y, t: -rate * y, 1.0, jnp.array([0.0, 1.0]))[1]

    assert math.isclose(float(kiln.grad(last)(2.0)), -math.exp(-2), rel_tol=1e-6)


def test_trees_and_integers() -> None:
    start = {"a": 1.0, "b": jnp.zeros(2)}
    found = odeint(
        lambda y, t, n: {"a": -y["a"] * n, "b": y["a"] * jnp.ones(2)},
        start,
        jnp.array([0.0, 1.0]),
        2,
    )
    assert found["a"].shape == (2,)
    np.testing.assert_allclose(found["b"][1], (1 - math.exp(-2)) / 2, rtol=1e-7)

    def last(a: Any, n: Any) -> Any:
        return odeint(lambda y, t, a, n: -y * n * a, 1.0, jnp.array([0.0, 1.0]), a, n)[1]

    assert math.isclose(float(kiln.grad(last)(1.0, 2)), -2 * math.exp(-2), rel_tol=1e-6)


def test_mapped() -> None:
    found = kiln.vmap(lambda y: odeint(lambda y, t: -y, y, jnp.array([0.0, 1.0])))(jnp.arange(3.0))
    np.testing.assert_allclose(found[:, 1], np.arange(3) * math.exp(-1), rtol=1e-7)


def test_arguments_are_arrays() -> None:
    with pytest.raises(TypeError, match="must be arrays or scalars"):
        odeint(lambda y, t, name: y, 1.0, jnp.arange(2.0), "name")


def test_derivatives_of_derivatives() -> None:
    t = np.linspace(0.0, 1.0, 4, dtype=np.float32)

    def total(a: Any) -> Any:
        return odeint(lambda y, t, a: -a * y, jnp.float32(1.5), t, a, rtol=1e-6).sum()

    found = kiln.grad(kiln.grad(total))(0.7)
    np.testing.assert_allclose(found, (t * t * 1.5 * np.exp(-0.7 * t)).sum(), 1e-4)
