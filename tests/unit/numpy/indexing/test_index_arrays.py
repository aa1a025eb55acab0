"""Coordinates of flat indices."""

from __future__ import annotations

import kiln
import kiln.numpy as jnp


def test_the_shape_of_unraveled_indices_may_be_traced() -> None:
    at = jnp.array([5, -1, 99, -99], jnp.int8)
    for shape in ((2, 3), [2, 3], jnp.array([2, 3])):
        found = kiln.jit(jnp.unravel_index)(at, shape)
        assert [x.tolist() for x in found] == [[1, 1, 1, 0], [2, 2, 2, 0]]
        assert {str(x.dtype) for x in found} == {"int8"}
    (alone,) = kiln.jit(jnp.unravel_index)(at, 4)
    assert alone.tolist() == [3, 3, 3, 0]
