"""Which names a decision needed to be at least 1."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.base.errors import InconclusiveSizeError
from kiln.ir.sizes.assumptions import assume_not_zero, collecting, is_collecting, names_in_scope
from kiln.ir.sizes.size import maximum, symbol

n, m = symbol("n"), symbol("m")


def test_decisions_that_hold_for_0_too_are_free() -> None:
    with collecting() as found:
        assert n >= 0
        assert n + 1 > 0
        assert not n < 0
        assert maximum(n, 0) == n
        assert n != n + 1
        assert 2 * n == n + n
    assert found == set()


def test_decisions_that_need_an_element_are_noted() -> None:
    for decide in (lambda: n >= 1, lambda: n != 0, lambda: bool(n), lambda: maximum(n, 1)):
        with collecting() as found:
            decide()
        assert found == {"n"}
    with collecting() as found:
        assert n * m > 0
    assert found == {"n", "m"}


def test_everybody_around_hears_of_it() -> None:
    assert not is_collecting()
    with collecting(["n"]) as outer:
        with collecting(["m"]) as inner:
            assert names_in_scope() == ("n", "m")
            assume_not_zero(["m"])
        assert n != 0
        assert names_in_scope() == ("n",)
    assert (inner, outer) == ({"m"}, {"n", "m"})
    assert names_in_scope() == ()


def test_differences_that_a_user_sees_are_noted() -> None:
    for compare, difference in (
        (lambda: n == 1, n - 1),
        (lambda: n != 4, n - 4),
        (lambda: n == np.int64(4), n - 4),
        (lambda: n == 4.0, n - 4),
        (lambda: n in (m, 2 * n), n - m),
        (lambda: (n, 3) == (m, 3), n - m),
        (lambda: n % 8 == 0, n % 8),
    ):
        with collecting(["n"]) as found:
            compare()
        assert difference in found or -difference in found, difference
    with collecting(["n"]) as found:
        assert (n == -1) is (2 * n == 3) is (n == 1.5) is (n == "n") is False
    assert found == set()
    with pytest.raises(InconclusiveSizeError, match="looked up"), collecting(["n"]):
        {1: 2}.get(n)
