"""Products broadcast as NumPy's do, also where sizes are 1."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp

SHAPES = [(2,), (1,), (2, 2), (1, 2), (2, 1), (1, 2, 2), (3, 2, 2), (1, 1, 2, 2), (3, 1, 2, 2)]
SHAPES += [(1, 1, 1), (2, 1, 1, 1), (2, 3, 2, 2)]


def _numbers(shape: tuple[int, ...], start: int) -> np.ndarray:
    return np.arange(start, start + np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(SHAPES, SHAPES)), ids=str)
def test_matmul_of_all_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = _numbers(a, 1), _numbers(b, 3)
    try:
        expected = np.matmul(x, y)
    except ValueError:
        with pytest.raises((TypeError, ValueError)):
            jnp.matmul(x, y)
        return
    found = jnp.matmul(x, y)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    _, tangent = kiln.jvp(jnp.matmul, (x, y), (x, y))
    np.testing.assert_allclose(tangent, 2 * expected, rtol=1e-6)
