"""Sets of numbers among which some are nan, which is one number, as for NumPy's `unique`."""

from __future__ import annotations

import numpy as np
import pytest

import kiln.numpy as jnp

NANS = np.array([3, 1, np.nan, 1, 0, np.nan, np.inf], np.float32)


@pytest.mark.parametrize("name", ["intersect1d", "setdiff1d", "setxor1d", "union1d"])
@pytest.mark.parametrize("other", [NANS[:0], NANS, NANS[:3], NANS[:2]])
def test_each_array_has_one_nan(name: str, other: np.ndarray) -> None:
    found = getattr(jnp, name)(NANS, other)
    np.testing.assert_array_equal(found, getattr(np, name)(NANS, other))


def test_complex_numbers_with_a_nan_in_either_part_are_one() -> None:
    parts = [-0.0, 0.0, 1.0, np.nan, -np.nan]
    x = np.array([complex(a, b) for a in parts for b in parts], np.complex64)
    found = jnp.unique(x, True, True, True)
    expected = np.unique(x, True, True, True)
    np.testing.assert_array_equal(np.isnan(found[0]), np.isnan(expected[0]))
    for mine, numpys in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(mine, numpys)


def test_slices_are_padded_with_a_slice() -> None:
    x = np.arange(12).reshape(2, 2, 3) % 5
    fill = np.array([[7, 8, 9], [1, 2, 3]])
    found = jnp.unique(x, axis=1, size=3, fill_value=fill)
    np.testing.assert_array_equal(found[:, :2], np.unique(x, axis=1))
    np.testing.assert_array_equal(found[:, 2], fill)
    np.testing.assert_array_equal(jnp.unique(x, axis=1, size=3, fill_value=4)[:, 2], [[4] * 3] * 2)
