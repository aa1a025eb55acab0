"""Derivatives with respect to Python scalars are weak, and are arrays."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax

WEAK = {
    "product": lambda x: x * x,
    "constant": lambda x: 3.0,
    "identity": lambda x: x,
    "strong array": lambda x: jnp.sum(x * jnp.ones(3)),
    "converted": lambda x: jnp.float32(x) * 2,
    "cond": lambda x: lax.cond(x > 0, lambda x: x * 2.0, lambda x: -x, x),
    "scan": lambda x: lax.scan(lambda c, _: (c * 2.0, None), x, None, length=3)[0],
    "jit": kiln.jit(lambda x: x * 2),
}


@pytest.mark.parametrize("name", WEAK)
def test_gradients_of_weak_arguments_are_weak_arrays(name: str) -> None:
    for function in (kiln.grad(WEAK[name]), kiln.jit(kiln.grad(WEAK[name]))):
        found = function(2.0)
        assert isinstance(found, kiln.Array)
        assert (found.dtype, found.shape, found.weak_type) == (np.float32, (), True)
        strong = function(jnp.float32(2.0))
        assert (strong.dtype, strong.weak_type) == (np.float32, False)


def test_mixed_arguments() -> None:
    weak, strong = kiln.grad(lambda x, y: x * y, (0, 1))(2.0, jnp.float32(3))
    assert (weak.weak_type, strong.weak_type) == (True, False)
    (row,) = kiln.vjp(lambda x: x * jnp.ones(2), 3.0)[1](jnp.ones(2))
    assert row.weak_type


def test_other_derivatives() -> None:
    assert kiln.hessian(lambda x: x**3)(2.0).weak_type
    assert kiln.jacfwd(jnp.sin)(2.0).weak_type
    assert kiln.jacrev(lambda x: x * jnp.ones(2))(2.0).weak_type
    assert kiln.jvp(jnp.sin, (2.0,), (jnp.float32(1),))[1].weak_type
    assert not kiln.jvp(jnp.sin, (jnp.float32(2.0),), (1.0,))[1].weak_type
    # What is pushed or pulled through a linear map keeps its own type.
    push = kiln.linearize(jnp.sin, 2.0)[1]
    assert push(1.0).weak_type
    assert not push(jnp.float32(1)).weak_type
