"""Named sizes from the shapes of a call."""

from __future__ import annotations

import pytest

from kiln.errors import InconclusiveSizeError
from kiln.ir.sizes.size import maximum, symbol
from kiln.ir.sizes.solving import Misfit, misfits, solve, steps

B, N = symbol("b"), symbol("n")


def test_a_name_alone():
    assert solve([(B, 3), (4, N)], [(7, 3), (4, 2)]) == {"b": 7, "n": 2}


def test_lines():
    assert solve([(2 * B + 1,)], [(9,)]) == {"b": 4}
    assert solve([(5 - B,)], [(2,)]) == {"b": 3}
    assert solve([(2 * B,)], [(9,)]) == {}


def test_names_that_follow_from_others():
    found = solve([(B + 3 * N, B)], [(11, 2)])
    assert found == {"b": 2, "n": 3}
    assert [step.name for step in steps([(B + 3 * N, B)])] == ["b", "n"]
    assert solve([(B + N,)], [(3,)]) == {}


@pytest.mark.parametrize("size", [B * B, B // 2, maximum(B, 3), B * N])
def test_what_is_no_line(size):
    assert steps([(size,)]) == []


def test_sizes_for_sizes():
    assert solve([(B, 2 * B)], [(N, 2 * N)]) == {"b": N}
    with pytest.raises(InconclusiveSizeError):
        solve([(2 * B,)], [(N,)])


def test_misfits():
    patterns = [(B, 2 * B), (3,)]
    assert misfits(patterns, [(2, 4), (3,)], {"b": 2}) == []
    assert misfits(patterns, [(2, 5), (4,)], {"b": 2}) == [Misfit(0, 1, 4), Misfit(1, 0, 3)]
    with pytest.raises(InconclusiveSizeError):
        misfits([(B,)], [(N,)], {"b": 2})
