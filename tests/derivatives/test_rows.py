"""Derivatives of public functions agree with differences, with each other, and in batches."""

from __future__ import annotations

import pytest

import kiln
from tests.derivatives.checks import Motion, check_forward, failures
from tests.derivatives.row import Row
from tests.derivatives.table import PARTS, ROWS, part

SAMPLES = [row for row in ROWS if row.name in ("random.gamma", "random.loggamma")]
"""The samplers that have rules of their own."""


def _checked(number: int, point: int = 0) -> list[str]:
    return [line for row in part(number) for line in failures(row, kiln, point)]


def test_a_fixed_slice() -> None:
    assert _checked(0) == []


@pytest.mark.parametrize("row", SAMPLES, ids=lambda r: r.subject)
def test_samples_move_with_their_quantiles(row: Row) -> None:
    with kiln.enable_x64(True):
        assert check_forward(Motion(row, kiln)) == []


@pytest.mark.full
@pytest.mark.parametrize("point", range(2))
@pytest.mark.parametrize("number", range(PARTS))
def test_all_rows(number: int, point: int) -> None:
    assert _checked(number, point) == []
