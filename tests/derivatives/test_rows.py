"""Derivatives of public functions agree with differences, with each other, and in batches."""

from __future__ import annotations

import pytest

import kiln
from tests.derivatives import numpy_rows
from tests.derivatives.checks import failures
from tests.derivatives.row import rows

ROWS = [row for module, text in numpy_rows.TEXTS for row in rows(module, text)]
EVERY = 12
"""One row in so many is checked by `make test`, the others in `make test-full`."""


def _checked(part: int, point: int = 0) -> list[str]:
    return [line for row in ROWS[part::EVERY] for line in failures(row, kiln, point)]


def test_a_fixed_slice() -> None:
    assert _checked(0) == []


@pytest.mark.full
@pytest.mark.parametrize("part", range(EVERY))
def test_all_rows(part: int) -> None:
    assert _checked(part) == []
