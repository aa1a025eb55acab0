"""Decisions that hold for all sizes, and what they assume."""

from __future__ import annotations

import pytest

from kiln.base.errors import InconclusiveSizeError
from kiln.ir.sizes.assumptions import collecting
from kiln.ir.sizes.decisions import assume_between, divides, is_surely
from kiln.ir.sizes.size import Size, symbol
from kiln.ir.sizes.values import evaluate

n, m = symbol("n"), symbol("m")


def test_divides() -> None:
    assert divides(2, 4 * n + 2)
    assert not divides(2, 2 * n + 1)
    assert divides(n, n * m)
    with pytest.raises(InconclusiveSizeError, match="divides"):
        divides(2, n)


def test_is_surely() -> None:
    with collecting() as found:
        assert is_surely(3, 3)
        assert not is_surely(3, 0)
        assert is_surely(n + 0, n)
        assert not is_surely(n + 1, 0)
    assert found == set()
    with collecting() as found:
        assert not is_surely(n - 1, 0)
        assert not is_surely(0, n // 2)
    assert found == {n - 1, n // 2}


@pytest.mark.parametrize(
    ("size", "wrong", "right"),
    [
        (n * n, [11, 20], [1, 10]),
        (3 * n, [34], [33]),
        (5 - n, [106, 200], [1, 105]),
        (101 * n, [1, 2, 70], []),
        (-101 * n * n - n, [1, 2, 70], []),
    ],
)
def test_assume_between(size, wrong, right) -> None:
    with collecting() as found:
        assume_between(size, -100, 100)
    for value, holds in [(w, False) for w in wrong] + [(r, True) for r in right]:
        conditions = [each for each in found if type(each) is Size]
        assert all(evaluate(each, {"n": value}) != 0 for each in conditions) is holds


def test_axes_are_short_enough() -> None:
    with collecting() as found:
        assume_between(n, -100, 100)
        assume_between(n % 7, -100, 100)
    assert found == set()
    assume_between(n * n, -100, 100)
