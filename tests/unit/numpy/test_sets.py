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
