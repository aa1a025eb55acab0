"""`lazy_init`: the variables of init, from shapes alone."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import linen as nn
from kiln.linen.errors import LazyInitError

KEY = kiln.random.key(0)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, scale):
        self.variable("stats", "scale", lambda: scale * 2)
        return nn.Dense(3)(nn.Dense(4)(x)) * scale


def test_variables_are_those_of_init():
    x = jnp.ones((5, 2))
    expected = Net().init(KEY, x, jnp.ones(()))
    found = Net().lazy_init(KEY, kiln.ShapeDtypeStruct((5, 2), np.float32), jnp.ones(()))
    assert kiln.tree.structure(found) == kiln.tree.structure(expected)
    for a, b in zip(kiln.tree.leaves(found), kiln.tree.leaves(expected), strict=True):
        assert np.allclose(a, b, rtol=1e-5)


def test_no_input_is_allocated():
    huge = kiln.ShapeDtypeStruct((10**9, 2), np.float32)
    assert set(Net().lazy_init(KEY, huge, 2.0)) == {"params", "stats"}


def test_a_variable_of_an_input_is_named():
    with pytest.raises(LazyInitError, match="scale"):
        Net().lazy_init(KEY, jnp.ones((5, 2)), kiln.ShapeDtypeStruct((), np.float32))
