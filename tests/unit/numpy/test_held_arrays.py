"""Objects that hold an array and pass on to it what they lack, as variables of Flax do.

They have the attributes of an array, `aval` too, and are none: what counts is `__jax_array__`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.core.array_type import Array


class Holding:
    """An object that holds an array."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __jax_array__(self) -> Any:
        return self.value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value, name)


WEIGHTS = np.array([[2.0, 1.0], [0.5, 3.0]], np.float32)

FUNCTIONS = {
    "asarray": jnp.asarray,
    "array": jnp.array,
    "dot": lambda x: jnp.dot(WEIGHTS, x),
    "matmul": lambda x: jnp.matmul(x, WEIGHTS),
    "einsum": lambda x: jnp.einsum("ij,jk", x, WEIGHTS),
    "multiply": lambda x: jnp.multiply(x, WEIGHTS),
    "maximum": lambda x: jnp.maximum(x, 1.5),
    "exp": jnp.exp,
    "sum": jnp.sum,
    "reshape": lambda x: jnp.reshape(x, 4),
    "transpose": jnp.transpose,
    "concatenate": lambda x: jnp.concatenate([x, WEIGHTS]),
    "where": lambda x: jnp.where(WEIGHTS > 1, x, 0.0),
    "take": lambda x: jnp.take(x, np.array([1, 0]), axis=0),
    "inv": jnp.linalg.inv,
    "relu": kiln.nn.relu,
    "softmax": kiln.nn.softmax,
    "convert_element_type": lambda x: lax.convert_element_type(x, "float32"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_go_through_what_is_held(name: str) -> None:
    function = FUNCTIONS[name]

    def loss(make: Any) -> Any:
        return lambda x: jnp.sum(jnp.sin(function(make(x)) * 0.7))

    wanted, slope = kiln.value_and_grad(loss(lambda x: x))(WEIGHTS)
    assert np.any(slope)
    for transform in (lambda f: f, kiln.jit):
        value, found = transform(kiln.value_and_grad(loss(Holding)))(WEIGHTS)
        np.testing.assert_allclose(value, wanted, rtol=1e-5)
        np.testing.assert_allclose(found, slope, rtol=1e-5)


def test_what_is_held_is_not_returned_as_an_array() -> None:
    held = Holding(jnp.asarray(WEIGHTS))
    assert isinstance(jnp.asarray(held), Array)
    assert jnp.shape(held) == (2, 2)


@pytest.mark.parametrize("bind", [lax.exp, lambda x: lax.dot(x, WEIGHTS), lambda x: lax.add(x, x)])
def test_primitives_take_no_holders(bind: Any) -> None:
    with pytest.raises(TypeError, match="holds one"):
        bind(Holding(jnp.asarray(WEIGHTS)))
    with pytest.raises(TypeError, match="holds one"):
        kiln.grad(lambda x: jnp.sum(bind(Holding(x))))(WEIGHTS)
