"""Extents of loops: what is certain for all sizes, and what is only likely."""

from __future__ import annotations

import pytest

from kiln.engines.native.loop_ir.extents import (
    TYPICAL,
    at_least,
    estimate,
    evaluator,
    is_named,
    is_positive,
    magnitude,
    quotient,
    smallest,
    whole,
)
from kiln.ir.sizes.size import maximum, symbol
from kiln.ir.sizes.values import evaluate

N, M = symbol("n"), symbol("m")


def test_an_estimate_takes_named_axes_to_be_long() -> None:
    assert estimate(3) == 3
    assert estimate(2 * N + 1) == 2 * TYPICAL + 1


@pytest.mark.parametrize(
    ("x", "y", "is_certain"),
    [
        (3, 3, True),
        (2, 3, False),
        (N, 1, True),
        (N, 2, False),
        (N * M, M, True),
        (N, M, False),
        (N + 1, N, True),
        (N, N + 1, False),
        ((N + 15) // 16 * 16, N, True),
    ],
)
def test_what_is_certainly_as_large(x: object, y: object, is_certain: bool) -> None:
    assert at_least(x, y) is is_certain  # type: ignore[arg-type]


def test_signs() -> None:
    assert is_positive(N)
    assert not is_positive(N - 1)
    assert not is_positive(0)
    assert magnitude(-3) == 3
    assert magnitude(-N) == N
    assert magnitude(N) == N
    assert magnitude(N - M) is None


def test_the_smallest_is_known_or_not() -> None:
    assert smallest([3 * N, N, N + 1]) == N
    assert smallest([N, 5]) is None
    assert smallest([]) is None


def test_quotients() -> None:
    assert quotient(6, 3) == 2
    assert quotient(7, 3) is None
    assert quotient(7, 0) is None
    assert quotient(N * M * 2, M) == N * 2
    assert quotient(N, 2) is None
    assert quotient(3, N) is None
    assert whole(7, 3) == 2
    assert whole(N * M + M, M) == N + 1
    assert whole(5, N) is None


def test_sizes_are_named_or_not() -> None:
    assert is_named(1, N)
    assert not is_named(1, 2)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 3), (64, 1000)])
def test_an_evaluator_computes_what_the_sizes_mean(n: int, m: int) -> None:
    dims = [5, 0, N, N * M - 3, (N + 15) // 16 * 64, maximum(N, M, 9) - 1, (N * N + M) // 7 % 5]
    compute = evaluator(dims, ("n", "m"))
    assert compute(n, m) == tuple(evaluate(dim, {"n": n, "m": m}) for dim in dims)
