"""Errors of special functions stay below those that the table of cases allows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.scipy.special.accuracy import CASES, Case, measured


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_f32(case: Case) -> None:
    errors, _ = measured(case, np.float32, 40, seed=3)
    assert errors.max() <= case.f32


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_f64(case: Case) -> None:
    errors, _ = measured(case, np.float64, 25, seed=5)
    assert errors.max() <= case.f64
