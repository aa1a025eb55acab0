"""Pooling gives NumPy's sums and extremes of windows, and flax's answers about their edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln import lax
from kiln.linen import avg_pool, max_pool, min_pool, pool

X = np.random.RandomState(0).randn(2, 6, 4, 3).astype(np.float32)
BLOCKS = X.reshape(2, 3, 2, 2, 2, 3)


def test_blocks() -> None:
    for fun, numpy in ((avg_pool, np.mean), (max_pool, np.max), (min_pool, np.min)):
        found = fun(X, (2, 2), strides=(2, 2))
        np.testing.assert_allclose(found, numpy(BLOCKS, axis=(2, 4)), rtol=1e-5, atol=1e-6)
        alone = fun(X[0], [2, 2], strides=[2, 2])
        np.testing.assert_array_equal(alone, found[0])
        more = fun(X[None], (2, 2), strides=(2, 2))
        np.testing.assert_array_equal(more[0], found)


def test_integers() -> None:
    numbers = np.arange(8).reshape(1, 8, 1)
    assert max_pool(numbers, (2,), (2,)).tolist() == [[[1], [3], [5], [7]]]
    assert min_pool(numbers, (2,), (2,)).tolist() == [[[0], [2], [4], [6]]]
    assert avg_pool(numbers, (2,), (2,)).tolist() == [[[0.5], [2.5], [4.5], [6.5]]]


def test_padding_counts_or_does_not() -> None:
    ones = np.ones((1, 3, 1), np.float32)
    assert avg_pool(ones, (2,), padding=((1, 0),)).ravel().tolist() == [0.5, 1, 1]
    without = avg_pool(ones, (2,), padding=((1, 0),), count_include_pad=False)
    assert without.ravel().tolist() == [1, 1, 1]
    same = avg_pool(ones[0], (2,), padding="SAME", count_include_pad=False)
    assert same.ravel().tolist() == [1, 1, 1]


def test_any_reduction() -> None:
    found = pool(X, 1.0, lax.mul, (2, 2), (2, 2), "VALID")
    np.testing.assert_allclose(found, np.prod(BLOCKS, axis=(2, 4)), rtol=1e-5)


@pytest.mark.parametrize(
    ("window", "options", "text"),
    [
        ((2, 2, 2, 2), {}, "has too few axes"),
        ((2, 2), {"strides": (1,)}, "must equal len"),
        ((2, 2), {"padding": ((1, 1),)}, "must specify a (low, high) pair"),
        ((2, 2), {"padding": ((1,), (1,))}, "must specify a (low, high) pair"),
    ],
)
def test_refusals(window: Any, options: Any, text: str) -> None:
    with pytest.raises(ValueError, match="pool with window_shape") as caught:
        max_pool(X, window, **options)
    assert text in str(caught.value)
    assert str(caught.value).count("\n") == 2
