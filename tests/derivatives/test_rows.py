"""Derivatives of public functions agree with differences, with each other, and in batches."""

from __future__ import annotations

import pytest

import kiln
from tests.derivatives.checks import failures
from tests.derivatives.table import PARTS, part


def _checked(number: int, point: int = 0) -> list[str]:
    return [line for row in part(number) for line in failures(row, kiln, point)]


def test_a_fixed_slice() -> None:
    assert _checked(0) == []


@pytest.mark.full
@pytest.mark.parametrize("point", range(2))
@pytest.mark.parametrize("number", range(PARTS))
def test_all_rows(number: int, point: int) -> None:
    assert _checked(number, point) == []
