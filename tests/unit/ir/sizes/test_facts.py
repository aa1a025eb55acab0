"""Facts about sizes: what is decided by them holds for all small values that fulfill them."""

from __future__ import annotations

import itertools
import pickle
import random

import pytest

from kiln.errors import InconclusiveSizeError
from kiln.ir.sizes.decisions import divides
from kiln.ir.sizes.facts import Fact, Facts, bare, broken, facts_of
from kiln.ir.sizes.polynomial import bounds
from kiln.ir.sizes.size import Dim, Size, equal, maximum, minimum, symbol
from kiln.ir.sizes.values import evaluate, substitute

A, B, C = symbol("a"), symbol("b"), symbol("c")


def above(*dims: Dim) -> Facts:
    return Facts([Fact(f"{dim} >= 0", dim, False) for dim in dims])


def zero(*dims: Dim) -> Facts:
    return Facts([Fact(f"{dim} == 0", dim, True) for dim in dims])


def carrying(dim: Dim, facts: Facts) -> Dim:
    return substitute(dim, {name: symbol(name, facts) for name in "abc"})


def test_sizes_carry_facts() -> None:
    two = above(B - 2)
    b = symbol("b", two)
    assert facts_of(b + 1, 3) == two and facts_of(B) is None
    assert hash(b) != hash(B) and str(b) == "b"
    assert bare(b + 1) == B + 1 and facts_of(bare(b // 2 + maximum(b, 9))) is None
    assert substitute(b + C, {"c": 3}) - 3 == b
    assert facts_of(substitute(b, {})) == two
    both = facts_of(b * symbol("c", above(C - 5)))
    assert both is not None and len(both.facts) == 2
    found = pickle.loads(pickle.dumps(b))
    assert found == b and hash(found) == hash(b) and facts_of(found) == two


def test_names_of_two_scopes_are_one_size() -> None:
    b, again = symbol("b", above(B - 2)), symbol("b", above(5 - B))
    assert b == again and b == B and equal(b, again)
    assert b + again <= 10 and b * again >= 4


@pytest.mark.parametrize(
    ("facts", "dim", "low", "high"),
    [
        (above(B - 2), B, 2, None),
        (above(8 - B), B // 2 - 1, -1, 3),
        (above(2 * B - 5), B, 3, None),
        (above(A - B, B - C), A - C, 0, None),
        (above(A + B - 10), 2 * A + 2 * B, 20, None),
        (above(4 - B), A * B - 4 * A, None, 0),
        (above(A - 3, B - 2), A * B, 6, None),
        (above(8 - maximum(A, B)), A, 1, 8),
        (above(B // 4 - 3), B, 12, None),
        (zero(B - 4 * C), B - 4 * (B // 4), 0, 0),
        (zero(B - 4 * (B // 4)), B % 4, 0, 0),
        (zero(A - B, C - 2 * A), 2 * B - C, 0, 0),
        (zero(B - 4), B, 4, 4),
    ],
)
def test_bounds(facts: Facts, dim: Dim, low: int | None, high: int | None) -> None:
    assert bounds(carrying(dim, facts)) == (low, high)


def test_decisions() -> None:
    even = symbol("b", zero(B - 2 * (B // 2)))
    assert even // 2 * 2 == even and even % 2 == 0 and divides(2, even)
    assert even != 3 * even
    with pytest.raises(InconclusiveSizeError):
        divides(4, even)
    large = symbol("b", above(B - 16))
    assert maximum(large, 16) == large and minimum(large, 4) == 4
    assert large >= 16 and not large < 16 and large != 15
    with pytest.raises(InconclusiveSizeError, match="b >= 17"):
        _ = large >= 17


DIMS = (A, B, A + B, A - B, 2 * A - 3, A * B - 4, A // 2, B - 4 * (B // 4), maximum(A, B) - 3)


@pytest.mark.parametrize("seed", range(40))
def test_bounds_hold_where_facts_do(seed: int) -> None:
    rng = random.Random(seed)

    def some() -> Dim:
        return rng.choice(DIMS) * rng.choice((-1, 1, 1, 2)) + rng.randint(-3, 6)

    chosen = [(some(), rng.random() < 0.3) for _ in range(rng.randint(1, 3))]
    facts = Facts([Fact(f"{d} {e}", d, e) for d, e in chosen if type(d) is Size])
    wanted = [some() for _ in range(4)]
    for a, b in itertools.product(range(1, 11), repeat=2):
        env = {"a": a, "b": b}
        if broken(facts, env, substitute) is None:
            for dim in wanted:
                low, high = bounds(carrying(dim, facts))
                value = evaluate(dim, env)
                assert low is None or low <= value, (facts, dim, env)
                assert high is None or value <= high, (facts, dim, env)


def test_values_that_break_facts() -> None:
    facts = above(A - B, B - 2)
    assert broken(facts, {"a": 3, "b": 3}, substitute) is None
    assert broken(facts, {"a": 2, "b": 3}, substitute) == (facts.facts[0], -1)
    assert broken(zero(A - B), {"a": 2, "b": 3}, substitute) is not None
