"""The series are what their generator writes."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest

from kiln.scipy.special.coefficients import SERIES
from tests.unit.scipy.special.coefficients import DIGITS, FUNCTIONS, series


@pytest.mark.parametrize("name", ["dawson_far", "gamma_star", "spence", "sine_g"])
def test_as_generated(name: str) -> None:
    fun, ends = FUNCTIONS[name]
    with mp.workdps(DIGITS):
        found = tuple(
            (float(a), float(b), tuple(series(fun, a, b))) for a, b in itertools.pairwise(ends)
        )
    assert [piece[:2] for piece in SERIES[name]] == [piece[:2] for piece in found]
    for (*_, kept), (*_, made) in zip(SERIES[name], found, strict=True):
        # The last bits depend on the precision that mpmath had when constants were made.
        np.testing.assert_allclose(kept, made, 0, 1e-15 * max(map(abs, made)))


def test_none_is_missing() -> None:
    assert sorted(SERIES) == sorted(FUNCTIONS)
