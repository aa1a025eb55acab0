"""Dimensions: normal form, arithmetic, decisions from bounds."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest

from kiln.base.errors import InconclusiveSizeError
from kiln.ir.sizes import decisions as size_decisions
from kiln.ir.sizes import size as sizes
from kiln.ir.sizes import values as size_values
from kiln.ir.sizes.size import Dim, Size, symbol

n, m = symbol("n"), symbol("m")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (n + n, 2 * n),
        ((n + 1) * (m + 2), n * m + 2 * n + m + 2),
        ((2 * n) // 2, n),
        ((2 * n + m + 5) // 2, n + (m + 1) // 2 + 2),
        ((n // 2) // 3, n // 6),
        ((2 * n + 1) // 4, n // 2),
        ((n * m) // n, m),
        (((n + 1) * m) // (n + 1), m),
        (n // -2, (-n) // 2),
        (sizes.maximum(n, n + 1), n + 1),
        (sizes.maximum(n, 0), n),
        (sizes.maximum(n, sizes.maximum(m, 4)), sizes.maximum(sizes.maximum(4, n), m)),
        ((n % 2) // 2, 0),
        (3 // (n + 3), 0),
        ((n + m) // m, n // m + 1),
        ((n * m + n + 1) // m, n + (n + 1) // m),
        ((n // m) // 2, n // (2 * m)),
        ((n // m + 1) // 2, (n + m) // (2 * m)),
        (n // (n + 1), 0),
        (n % m, n - m * (n // m)),
    ],
)
def test_equal_expressions_have_one_form(a: Dim, b: Dim) -> None:
    assert a == b
    assert hash(a) == hash(b)
    assert sizes.equal(a, b)


def test_what_has_no_names_is_an_int() -> None:
    for value in (n - n, 0 * n, (n + 3) - n, (n * m) % m, n // n):
        assert type(value) is int


def test_equality_is_structural_and_never_raises() -> None:
    assert (n == 3) is False
    assert (n != 3) is True
    assert (n == "n") is False
    assert len({(n, 3), (3, 3)}) == 2
    assert {n: 1}[symbol("n")] == 1
    assert (n, 2) == (symbol("n"), 2)


@pytest.mark.parametrize(
    "fact",
    [
        lambda: n >= 1,
        lambda: n > 0,
        lambda: operator.lt(0, n),
        lambda: n + 1 > n,
        lambda: n * m >= n,
        lambda: n // 2 <= n,
        lambda: n - n // 2 >= 0,
        lambda: n % 3 <= 2,
        lambda: n % 3 >= 0,
        lambda: m * (n // m) <= n,
        lambda: 2 * n * m * (n // m) <= 2 * n * n,
        lambda: n % m < m,
        lambda: n % m >= 0,
        lambda: n // m <= n,
        lambda: 7 // n <= 7,
        lambda: (n + m) // m >= 1,
        lambda: n // (m + 1) >= 0,
        lambda: (n + 3) // 2 >= 2,
        lambda: n // 3 + m // 3 + n // 5 + m // 7 >= 0,
        lambda: sizes.maximum(n, 3) >= 3,
        lambda: sizes.minimum(n, 3) <= n,
        lambda: not n < 1,
        lambda: bool(n),
        lambda: not sizes.equal(2 * n, 3),
        lambda: not sizes.equal(n, n + 1),
        lambda: size_decisions.divides(2, 4 * n + 2),
        lambda: not size_decisions.divides(2, 2 * n + 1),
        lambda: size_decisions.divides(n, n * m),
        lambda: size_decisions.divides(3, 6),
    ],
)
def test_decided(fact: Callable[[], bool]) -> None:
    assert fact() is True


@pytest.mark.parametrize(
    "question",
    [
        lambda: n > 1,
        lambda: n < m,
        lambda: n <= 3,
        lambda: operator.ge(3, n),
        lambda: sizes.equal(n, 3),
        lambda: sizes.equal(n, m),
        lambda: size_decisions.divides(2, n),
        lambda: n // (m - 2),
        lambda: bool(n - 1),
        lambda: range(n),
        lambda: int(n),
    ],
)
def test_undecided_names_the_axis(question: Callable[[], Any]) -> None:
    with pytest.raises(InconclusiveSizeError, match=r"named ax[ie]s .*n"):
        question()


def test_wrong_operands() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        n + "a"
    with pytest.raises(TypeError, match="compared"):
        n < "a"  # type: ignore[operator]  # noqa: B015
    with pytest.raises(ZeroDivisionError):
        n // 0
    with pytest.raises(TypeError):
        symbol("")


def test_shapes() -> None:
    assert sizes.product((2, 3)) == 6
    assert sizes.product(()) == 1
    assert sizes.product((n, 2, m)) == 2 * n * m
    assert sizes.is_constant((2, 3))
    assert not sizes.is_constant((2, n))
    assert sizes.names(n // 2, sizes.maximum(m, 3), 4) == ("m", "n")


def test_substitute_and_evaluate() -> None:
    assert size_values.substitute(n * m, {"n": m + 1}) == m * m + m
    assert size_values.substitute(n // 2, {"n": 4 * m}) == 2 * m
    assert size_values.substitute(7, {}) == 7
    assert size_values.evaluate(sizes.maximum(n, m), {"n": 2, "m": 5}) == 5
    with pytest.raises(KeyError, match="m"):
        size_values.evaluate(n + m, {"n": 1})


def test_copies() -> None:
    dim = sizes.maximum(n // 2, 3) + 1
    assert pickle.loads(pickle.dumps(dim)) == dim
    assert copy.deepcopy(dim) == dim
    with pytest.raises(AttributeError):
        n.terms = ()


Value = Callable[[int, int], int]


def _quotient(x: Dim, f: Value, y: Dim, g: Value) -> tuple[Dim, Value]:
    """Divide by what is positive for all sizes."""
    positive = sizes.maximum(y, 1)
    return x // positive, lambda a, b: f(a, b) // max(g(a, b), 1)


def _random(rng: random.Random, depth: int) -> tuple[Dim, Value]:
    if depth == 0:
        constant = rng.randint(-3, 4)
        leaves: list[tuple[Dim, Value]] = [
            (n, lambda a, b: a),
            (m, lambda a, b: b),
            (constant, lambda a, b: constant),
        ]
        return rng.choice(leaves)
    (x, f), (y, g) = _random(rng, depth - 1), _random(rng, depth - 1)
    by = rng.choice([2, 3, -2])
    nodes: list[Callable[[], tuple[Dim, Value]]] = [
        lambda: (x + y, lambda a, b: f(a, b) + g(a, b)),
        lambda: (x - y, lambda a, b: f(a, b) - g(a, b)),
        lambda: (x * by, lambda a, b: f(a, b) * by),
        lambda: (x * y, lambda a, b: f(a, b) * g(a, b)),
        lambda: (x // by, lambda a, b: f(a, b) // by),
        lambda: (x % by, lambda a, b: f(a, b) % by),
        lambda: _quotient(x, f, y, g),
        lambda: (sizes.maximum(x, y), lambda a, b: max(f(a, b), g(a, b))),
        lambda: (sizes.minimum(x, y), lambda a, b: min(f(a, b), g(a, b))),
    ]
    return rng.choice(nodes)()


def test_random_expressions_agree_with_ints() -> None:
    rng = random.Random(0)
    values = list(itertools.product(range(1, 6), repeat=2))
    for _ in range(400):
        dim, fun = _random(rng, rng.randint(1, 3))
        results = [fun(a, b) for a, b in values]
        for (a, b), expected in zip(values, results, strict=True):
            assert size_values.evaluate(dim, {"n": a, "m": b}) == expected, dim
        low, high = sizes.bounds(dim)
        assert low is None or low <= min(results), dim
        assert high is None or high >= max(results), dim
        if not isinstance(dim, Size):
            continue
        for compare in (operator.lt, operator.le, operator.gt, operator.ge, sizes.equal):
            try:
                answer = compare(dim, 1)
            except InconclusiveSizeError:
                continue
            same = operator.eq if compare is sizes.equal else compare
            assert {same(value, 1) for value in results} == {answer}, (dim, compare)


def test_sums_with_a_maximum_have_one_form() -> None:
    largest = sizes.maximum
    assert largest(1 - n, -1) + n - 1 == largest(n - 2, 0)
    assert largest(n - 2, 0) + 1 == largest(n - 1, 1)
    assert n - largest(n - 3, 0) == sizes.minimum(n, 3)
    assert 2 * largest(n - 1, 2) + 3 == 2 * largest(n, 3) + 1
    assert -2 * largest(n - 1, 2) - 3 == -2 * largest(n, 3) - 1
    assert largest(n, 3) + largest(m, 3) - largest(n, 3) == largest(m, 3)
