"""The activations of linen are those of kiln.nn; PReLU learns its slope."""

from __future__ import annotations

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import linen, nn

X = np.array([-2.0, 0.0, 3.0], np.float32)


def test_they_are_those_of_nn() -> None:
    names = {name for name, value in vars(nn).items() if callable(value)} & set(vars(linen))
    names = {name for name in names if not name.startswith("_")}
    # Attention is one of linen's own.
    names.remove("dot_product_attention")
    assert len(names) == 24
    for name in names:
        assert getattr(linen, name) is getattr(nn, name)
    assert linen.normalize is nn.standardize


def test_the_slope_is_learnt() -> None:
    module = linen.PReLU(negative_slope_init=0.25)
    variables = module.init(kiln.random.key(0), X)
    assert variables["params"]["negative_slope"] == 0.25
    np.testing.assert_array_equal(module.apply(variables, X), [-0.5, 0, 3])
    slope = kiln.grad(lambda v: module.apply(v, X).sum())(variables)
    assert slope["params"]["negative_slope"] == -2
    low = module.apply(variables, X.astype(jnp.bfloat16))
    assert low.dtype == jnp.bfloat16
