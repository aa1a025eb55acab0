"""The series are what their generator writes."""

from __future__ import annotations

import itertools

import mpmath as mp
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
    assert SERIES[name] == found


def test_none_is_missing() -> None:
    assert sorted(SERIES) == sorted(FUNCTIONS)
