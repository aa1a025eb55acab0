"""Named sizes beside numbers of all kinds."""

from __future__ import annotations

import decimal
import fractions
import math
import operator
from typing import Any

import numpy as np
import pytest

from kiln.ir.sizes import numbers as size_numbers
from kiln.ir.sizes.assumptions import collecting
from kiln.ir.sizes.size import symbol

n = symbol("n")

THREE: list[Any] = [
    3,
    3.0,
    3 + 0j,
    fractions.Fraction(3),
    decimal.Decimal(3),
    np.int8(3),
    np.float16(3),
    np.complex64(3),
    np.array(3),
    np.array(3.0),
]
NEVER: list[Any] = [2.5, math.nan, math.inf, 3 + 1j, fractions.Fraction(7, 2), "3", None, (3,)]


@pytest.mark.parametrize("three", THREE, ids=repr)
def test_numbers_that_are_whole(three: Any) -> None:
    assert size_numbers.whole(three) == 3
    assert type(size_numbers.whole(three)) is int
    for compare in (operator.eq, operator.ne):
        with collecting() as found:
            assert compare(n, three) is (compare is operator.ne)
        assert found == {n - 3}


@pytest.mark.parametrize("other", NEVER, ids=repr)
def test_numbers_that_no_size_is(other: Any) -> None:
    assert size_numbers.whole(other) is None
    with collecting() as found:
        assert (n == other, n != other) == (False, True)
    assert found == set()


def test_order_beside_fractions_of_one() -> None:
    for half in (0.5, fractions.Fraction(1, 2), decimal.Decimal("0.5"), np.float32(0.5)):
        assert (n > half, n >= half, n < half, n <= half) == (True, True, False, False)
    for half in (0.5, fractions.Fraction(1, 2), np.float32(0.5)):
        assert (half < n, half <= n, half > n, half >= n) == (True, True, False, False)
    assert (n < math.inf, n >= math.inf, n > -math.inf, n <= -math.inf) == (True, False) * 2
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        assert compare(n, math.nan) is False
    # Not below 1, and not above 1 for all: the limit itself decides.
    assert (n >= 1.0, n < 1.0) == (True, False)
    for other in ("1", 1j, None):
        with pytest.raises(TypeError, match="compared"):
            n < other  # noqa: B015


def test_limits() -> None:
    assert size_numbers.limit(2.5, above=True) == 3
    assert size_numbers.limit(2.5, above=False) == 2
    assert size_numbers.limit(np.int8(2), above=True) == 2
    assert size_numbers.limit(np.array(-2.5), above=True) == -2
    assert size_numbers.limit(1j, above=True) is None
    assert size_numbers.as_number("n") == "n"
