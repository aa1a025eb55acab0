"""Linear functions with a transpose of the user's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.custom_derivatives import linear_call

X = np.array([1.0, 2.0, 3.0], np.float32)


def scaled(r: Any, x: Any, factor: float = 100.0) -> Any:
    """Return r * x, whose transpose is `factor` times as large as it should be."""
    return linear_call(lambda r, x: r * x, lambda r, ct: ct * r * factor, r, x)


@pytest.mark.parametrize("engine", ["native", "xla", "reference"])
def test_the_transpose_is_the_users(engine: str) -> None:
    with override(engine=engine):
        assert kiln.jit(scaled)(2.0, 3.0) == 6.0
        assert kiln.grad(scaled, 1)(2.0, 3.0) == 200.0
        assert kiln.jit(kiln.grad(scaled, 1))(2.0, 3.0) == 200.0
        assert kiln.linear_transpose(lambda x: scaled(2.0, x), 1.0)(1.0) == (200.0,)


def test_forward_mode_is_the_function() -> None:
    assert kiln.jvp(lambda x: scaled(2.0, x), (3.0,), (4.0,)) == (6.0, 8.0)


def test_transposed_twice_it_is_the_function() -> None:
    def transposed(ct: Any) -> Any:
        return kiln.linear_transpose(lambda x: scaled(2.0, x), 1.0)(ct)[0]

    assert transposed(1.0) == 200.0
    assert kiln.linear_transpose(transposed, 1.0)(1.0) == (2.0,)


def test_stacks() -> None:
    np.testing.assert_allclose(kiln.vmap(scaled, (None, 0))(2.0, X), 2 * X)
    np.testing.assert_allclose(kiln.vmap(scaled, (0, None))(X, 2.0), 2 * X)
    np.testing.assert_allclose(kiln.vmap(kiln.grad(scaled, 1))(X, X), 100 * X)


def test_trees_and_closed_over_values() -> None:
    weight = jnp.asarray(X)

    def f(r: Any, x: Any) -> Any:
        return [r["a"] * x[0] + x[1] * weight.sum()]

    def back(r: Any, ct: Any) -> Any:
        return (r["a"] * ct[0], ct[0] * weight.sum())

    out = linear_call(f, back, {"a": 2.0}, (1.0, 1.0))
    assert float(out[0]) == 8.0
    found = kiln.grad(lambda x: linear_call(f, back, {"a": 2.0}, x)[0])((1.0, 1.0))
    assert tuple(map(float, found)) == (2.0, 6.0)


def test_residuals_have_no_derivative() -> None:
    with pytest.raises(NotImplementedError, match="have no derivative") as caught:
        kiln.grad(scaled)(2.0, 3.0)
    assert len(str(caught.value).splitlines()) == 3


def test_the_transpose_must_return_cotangents_of_the_arguments() -> None:
    with pytest.raises(TypeError, match="for linear arguments") as caught:
        linear_call(lambda r, x: x, lambda r, ct: jnp.stack([ct, ct]), 1.0, 2.0)
    assert len(str(caught.value).splitlines()) == 3
    with pytest.raises(TypeError, match="callable"):
        linear_call(3, lambda r, ct: ct, 1.0, 2.0)
