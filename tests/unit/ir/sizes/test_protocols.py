"""What Python and NumPy ask of an int, asked of a named size."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kiln.base.errors import InconclusiveSizeError
from kiln.ir.sizes.size import Size, symbol

n = symbol("n")


def test_what_is_the_same_expression_for_all_sizes() -> None:
    for same in (math.floor(n), math.ceil(n), math.trunc(n), round(n), round(n, 2), abs(n)):
        assert same is n
    assert (n.real, n.numerator, n.conjugate(), n.as_integer_ratio()) == (n, n, n, (n, 1))
    assert (n.imag, n.denominator, n.is_integer()) == (0, 1, True)
    assert (~n, n << 3, n >> 2) == (-n - 1, 8 * n, n // 4)
    assert (f"{n}", str(n), f"{n + 1}") == ("n", "n", "n+1")


@pytest.mark.parametrize(
    "use",
    [
        int,
        float,
        complex,
        range,
        hex,
        chr,
        bytes,
        math.sqrt,
        lambda n: round(n, -1),
        lambda n: "%d" % n,  # noqa: UP031
        lambda n: f"{n:3d}",
        lambda n: n & 1,
        lambda n: 1 | n,
        lambda n: n ^ 1,
        lambda n: 1 << n,
        lambda n: 1 >> n,
        lambda n: 2**n,
        lambda n: pow(n, 2, 7),
        lambda n: n.bit_length(),
        lambda n: n.bit_count(),
        lambda n: n.to_bytes(2, "big"),
        lambda n: [0] * n,
        lambda n: [1, 2][n],
        lambda n: np.zeros(n),
        lambda n: np.zeros((n, 2)),
        np.float32,
    ],
)
def test_what_differs_between_sizes(use: Callable[[Any], Any]) -> None:
    with pytest.raises(InconclusiveSizeError, match="the size n was used as a Python int") as error:
        use(n)
    assert len(str(error.value).splitlines()) == 3


def test_isinstance_outside_kiln() -> None:
    for kind in (int, numbers.Integral, numbers.Number, Size):
        assert isinstance(n, kind)
    for other in (bool, str, float, np.ndarray, np.integer):
        assert not isinstance(n, other)
    assert type(n) is Size
    match n:
        case int():
            pass
        case _:
            pytest.fail("a size is an int")


def test_operators_of_numpy_scalars_are_those_of_sizes() -> None:
    three = np.int64(3)
    assert (three + n, three - n, three * n) == (n + 3, 3 - n, 3 * n)
    assert np.add(n, three) == np.add(3, n) == n + 3
    assert np.int64(0) // (n + 1) == 0
    assert (np.int64(0) < n) is (n > np.int64(0)) is (np.int64(1) <= n) is True
    assert (np.int64(-3) == n, np.int64(-3) != n) == (False, True)


@pytest.mark.parametrize(
    "use",
    [
        np.sqrt,
        np.isnan,
        np.negative,
        lambda n: np.maximum(n, 3),
        lambda n: np.add(n, 3, dtype=float),
        lambda n: np.add.outer(n, [1, 2]),
        lambda n: operator.iadd(np.ones(2), n),
    ],
)
def test_numpy_computes_with_values(use: Callable[[Any], Any]) -> None:
    with pytest.raises(InconclusiveSizeError, match="NumPy computes with values only") as error:
        use(n)
    assert len(str(error.value).splitlines()) == 3
