"""The initializers of linen are those of kiln.nn, and two that are made like the others."""

from __future__ import annotations

import numpy as np

import kiln
from kiln import linen, nn


def test_they_are_those_of_nn() -> None:
    for name in nn.initializers.__all__:
        assert getattr(linen.initializers, name) is getattr(nn.initializers, name)


def test_zeros_and_ones() -> None:
    key = kiln.random.key(0)
    np.testing.assert_array_equal(linen.initializers.zeros_init()(key, (2,)), [0, 0])
    np.testing.assert_array_equal(linen.ones_init()(key, (2,), "int8"), [1, 1])
