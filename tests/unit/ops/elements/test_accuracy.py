"""How accurate elementwise functions are asked to be: checked, and without effect on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax

NAMES = ("cbrt", "cos", "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sin", "sqrt")
NAMES += ("tan", "tanh")
X = np.linspace(0.5, 2, 4, dtype=np.float32)


@pytest.mark.parametrize("name", NAMES)
def test_accuracy_changes_nothing(name: str) -> None:
    fun = getattr(lax, name)
    wanted = [None, lax.AccuracyMode.HIGHEST, lax.AccuracyMode.DEFAULT, lax.Tolerance(rtol=1e-6)]
    for accuracy in wanted:
        for run in (fun, kiln.jit(fun, static_argnames="accuracy")):
            np.testing.assert_allclose(run(X, accuracy=accuracy), fun(X), rtol=1e-6)
    assert str(kiln.make_jaxpr(lambda x: fun(x, accuracy=wanted[3]))(X)) == str(
        kiln.make_jaxpr(fun)(X)
    )
    slope = kiln.grad(lambda x: fun(x, accuracy=wanted[1]).sum())(X)
    np.testing.assert_allclose(slope, kiln.grad(lambda x: fun(x).sum())(X), rtol=1e-6)
    with pytest.raises(TypeError, match=f"{name}.x, accuracy='high'.* at ") as found:
        fun(X, accuracy="high")
    assert len(str(found.value).splitlines()) == 3


def test_tolerances() -> None:
    found = lax.Tolerance(atol=0.5, ulps=2)
    assert (found.atol, found.rtol, found.ulps) == (0.5, 0.0, 2)
    assert found == lax.Tolerance(0.5, 0.0, 2) and hash(found) == hash(lax.Tolerance(0.5, 0.0, 2))


@pytest.mark.parametrize(
    ("numbers", "match"),
    [
        ({"atol": -1.0}, "must be non-negative"),
        ({"ulps": -1, "atol": 1.0}, "must be non-negative"),
        ({}, "At least one of atol, rtol, or ulps"),
    ],
)
def test_tolerances_of_nothing(numbers: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        lax.Tolerance(**numbers)


def test_the_slope_of_expm1_keeps_its_digits() -> None:
    for x in (-80.0, -20.0, -1e-3, 3.0):
        slope = float(kiln.grad(jnp.expm1)(x))
        assert slope == pytest.approx(float(np.exp(np.float64(np.float32(x)))), rel=1e-6), x
