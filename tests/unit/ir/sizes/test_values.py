"""Values of sizes, and sizes that fulfill facts."""

from __future__ import annotations

import pytest

from kiln.ir.sizes.facts import Fact, Facts, broken
from kiln.ir.sizes.size import Dim, maximum, symbol
from kiln.ir.sizes.values import evaluate, example, substitute

A, B, C = symbol("a"), symbol("b"), symbol("c")


def above(*dims: Dim) -> Facts:
    return Facts([Fact(f"{dim} >= 0", dim, False) for dim in dims])


def zero(*dims: Dim) -> Facts:
    return Facts([Fact(f"{dim} == 0", dim, True) for dim in dims])


def test_values() -> None:
    assert evaluate(A * B - A // 2, {"a": 5, "b": 3}) == 13
    assert substitute(maximum(A, B), {"a": C}) == maximum(B, C)
    with pytest.raises(KeyError, match="no value for the axis 'b'"):
        evaluate(A + B, {"a": 1})


@pytest.mark.parametrize(
    "facts",
    [
        above(B - 100),
        zero(B - 4 * (B // 4)),
        zero(B - 4 * C, A - 2 * B),
        above(4 - B, B - 3),
        above(A - B, B - 16),
    ],
)
def test_examples_fulfil_facts(facts: Facts) -> None:
    found = example("abc", facts)
    assert found is not None and broken(facts, found, substitute) is None


def test_examples_without_facts_differ() -> None:
    assert example("ab", None) == {"a": 2, "b": 3}
    assert example("a", zero(A - 4001)) is None
