"""Bounds of polynomials in sizes, against all small values."""

from __future__ import annotations

import itertools

import pytest

from kiln.ir.sizes.polynomial import bounds, terms_of, times, without
from kiln.ir.sizes.size import Dim, maximum, minimum, symbol
from kiln.ir.sizes.values import evaluate

n, m = symbol("n"), symbol("m")


@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize(
    "dim",
    [
        n,
        -n,
        n - 1,
        n * m - n,
        n + 1 - n // 2,
        n - n // 2 - n // 3,
        maximum(n, 3) - n,
        minimum(n, 4) - minimum(n, 2),
        maximum(n - m, 0) + m - n,
        n * (m // 2),
        n // (m + 1) - m // (n + 2),
        # What is divided is not near zero, and the divisor has a largest value or none.
        (n + 5) // (m + 1),
        (n + 5) // minimum(m + 1, 2),
        (-n - 5) // (m + 1),
        (-n - 5) // minimum(m + 1, 2),
        3 * n - (m + 1) * (n // (m + 1)) - 2 * ((n - 7) // (m + 1)),
        -(n // (m + 1)) * (m + 1) * n + 5,
    ],
)
def test_bounds_hold(dim: Dim, least: int) -> None:
    low, high = bounds(dim, least)
    for a, b in itertools.product(range(least, 9), repeat=2):
        value = evaluate(dim, {"n": a, "m": b})
        assert low is None or low <= value
        assert high is None or value <= high


def test_bounds_that_decide() -> None:
    assert bounds(minimum(n, 4) - minimum(n, 2))[0] == 0
    assert bounds(n)[0] == 1
    assert bounds(n, 0)[0] == 0
    assert bounds(7) == (7, 7)


def test_products_and_quotients_of_terms() -> None:
    two_n = dict(terms_of(2 * n))
    assert times(two_n, dict(terms_of(m + 3))) == dict(terms_of(2 * n * m + 6 * n))
    ((monomial, _),) = terms_of(n * m)
    ((part, _),) = terms_of(n)
    assert without(monomial, part) == terms_of(m)[0][0]  # type: ignore[union-attr, index]
    assert without(part, monomial) is None
    with pytest.raises(TypeError, match="dimension"):
        terms_of("n")
