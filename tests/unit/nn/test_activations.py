"""Derivatives where pieces meet, overflow, and the programs of activations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln import nn


@pytest.mark.parametrize(
    ("name", "x", "slope"),
    [
        ("relu", 0.0, 0.0),
        ("relu", -0.0, 0.0),
        ("relu6", 0.0, 0.0),
        ("relu6", 6.0, 0.0),
        ("leaky_relu", 0.0, 1.0),
        ("elu", 0.0, 1.0),
        ("selu", 0.0, nn.activations.SELU_SCALE * nn.activations.SELU_ALPHA),
        ("celu", 0.0, 1.0),
        ("hard_tanh", 1.0, 1.0),
        ("hard_tanh", -1.0, 1.0),
        ("softplus", 0.0, 0.5),
        ("silu", 0.0, 0.5),
        ("soft_sign", 0.0, 1.0),
        ("hard_sigmoid", 3.0, 0.0),
    ],
)
def test_slopes_at_kinks(name: str, x: float, slope: float) -> None:
    fun = getattr(nn, name)
    assert kiln.grad(fun)(x) == pytest.approx(slope, rel=1e-6)
    assert kiln.jit(kiln.grad(fun))(x) == pytest.approx(slope, rel=1e-6)
    assert kiln.jvp(fun, (x,), (1.0,))[1] == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("name", ["softplus", "log_sigmoid", "elu", "selu", "silu", "mish", "gelu"])
@pytest.mark.parametrize("x", [-1e4, 1e4])
def test_nothing_overflows(name: str, x: float) -> None:
    value, slope = kiln.value_and_grad(getattr(nn, name))(x)
    assert np.isfinite(value)
    assert np.isfinite(slope)


def test_softplus_is_smooth() -> None:
    curvature = kiln.grad(kiln.grad(nn.softplus))
    assert curvature(0.0) == pytest.approx(0.25)


def test_programs() -> None:
    def text(fun: Any) -> str:
        return str(kiln.make_jaxpr(fun)(np.ones(3, np.float32)))

    assert "name=relu" in text(nn.relu)
    assert "max c 0.0" in text(nn.relu)
    assert "logistic a" in text(nn.sigmoid)
    assert "jit" not in text(nn.selu)


def test_integers_stay_integers_where_they_can() -> None:
    assert nn.relu(np.arange(-2, 3)).tolist() == [0, 0, 0, 1, 2]
    assert nn.relu(np.arange(3)).dtype == np.int32


def test_second_derivatives_and_vmap_of_relu() -> None:
    assert kiln.grad(kiln.grad(nn.relu))(1.0) == 0
    np.testing.assert_array_equal(
        kiln.vmap(kiln.grad(nn.relu))(np.array([-1.0, 0.0, 2.0], np.float32)), [0, 0, 1]
    )


def test_odd_halves_are_refused() -> None:
    with pytest.raises(AssertionError, match="axis size must be divisible by 2"):
        nn.glu(np.ones((2, 3), np.float32))
