"""Elements at indices: what is taken, and what is changed how often."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln import numpy as jnp


@pytest.mark.parametrize("axes", [(0,), (2,), (0, 1), [0, 2]])
def test_positions_count_modulo_the_sizes(axes: list[int]) -> None:
    src = np.arange(60.0, dtype=np.float32).reshape(3, 4, 5)
    idxs = [np.array([0, -1, 7]), np.array([1, 3, -2])][: len(axes)]
    found = lax.index_take(src, idxs, axes)
    for row in range(3):
        place: list[object] = [slice(None)] * 3
        for axis, index in zip(axes, idxs, strict=True):
            place[axis] = index[row] % src.shape[axis]
        assert np.array_equal(found[row], src[tuple(place)])


def test_positions_differ_in_examples() -> None:
    src = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    found = kiln.vmap(lambda i: lax.index_take(src, (i,), (1,)))(np.array([[0, 1], [-1, 2]]))
    assert np.array_equal(found, [src.T[[0, 1]], src.T[[3, 2]]])


@pytest.mark.parametrize("jitted", [False, True])
def test_a_function_is_applied_as_often_as_an_index_is_there(jitted: bool) -> None:
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))

    def twice(x: kiln.Array, i: kiln.Array) -> kiln.Array:
        return lax.scatter_apply(x, i, lambda y: 2 * y, numbers, update_shape=(4,))

    function = kiln.jit(twice) if jitted else twice
    found = function(jnp.arange(1.0, 6.0), np.array([[0], [2], [2], [9]]))
    # The last index is outside, and dropped.
    assert np.array_equal(found, [2, 2, 12, 4, 5])


def test_a_function_is_applied_to_windows() -> None:
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    found = lax.scatter_apply(x, np.array([[1]]), jnp.negative, numbers, update_shape=(1, 2))
    assert np.array_equal(found, [[0, 1, 2], [-3, -4, 5]])
