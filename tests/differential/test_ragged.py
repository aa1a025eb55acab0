"""Products of arrays one axis of which is divided into groups are jax's."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import kiln
from tests.differential.expressions import cases
from tests.differential.oracle import Case, Topic

NUMBERS = "lax.RaggedDotDimensionNumbers"

VALUES: dict[str, str] = {
    "groups of rows": """
        lax.ragged_dot_general(f(6, 3), f(4, 3, 2), arr([2, 1, 0, 2]), N((((1,), (1,)), ((), ())), [0], [0]))
        lax.ragged_dot_general(f(3, 6), f(3, 2, 4), arr([2, 1, 0, 3]), N((((0,), (0,)), ((), ())), [1], [2]))
        lax.ragged_dot_general(f(2, 6, 3), f(4, 2, 3, 5), arr([2, 1, 0, 2]), N((((2,), (2,)), ((0,), (1,))), [1], [0]))
        lax.ragged_dot_general(f(2, 6, 3), f(4, 2, 3, 5), arr([[2, 1, 0, 2], [0, 3, 3, 0]]), N((((2,), (2,)), ((0,), (1,))), [1], [0]))
        lax.ragged_dot_general(f(6, 2, 3), f(4, 3, 5), arr([[1, 1, 0, 0]] * 6), N((((2,), (1,)), ((), ())), [1], [0]))
        lax.ragged_dot_general(f(6, 3, 2), f(4, 2, 3, 5), arr([[2, 1, 0, 2], [1, 2, 3, 0]]), N((((1,), (2,)), ((2,), (1,))), [0], [0]))
        lax.ragged_dot_general(i(6, 3), i(2, 3, 2), arr([2, 3]), N((((1,), (1,)), ((), ())), [0], [0]), preferred_element_type='float32')
        jax.grad(lambda y: (lax.ragged_dot_general(f(6, 3), y, arr([2, 1, 0, 2]), N((((1,), (1,)), ((), ())), [0], [0])) ** 2).sum())(f(4, 3, 2))
    """,
    "groups of terms": """
        lax.ragged_dot_general(f(2, 6), f(6, 3), arr([2, 1, 0, 2]), N((((1,), (0,)), ((), ())), [1], []))
        lax.ragged_dot_general(f(5, 2, 6), f(5, 6, 3), arr([2, 4]), N((((2,), (1,)), ((0,), (0,))), [2], []))
        lax.ragged_dot_general(f(5, 2, 6), f(5, 6, 3), arr([[2, 4]] * 5), N((((2,), (1,)), ((0,), (0,))), [2], []))
        lax.ragged_dot_general(f(2, 4, 6), f(6, 4, 3), arr([[2, 4], [1, 1], [3, 0], [6, 0]]), N((((1, 2), (1, 0)), ((), ())), [2], []))
    """,
    "groups of batches": """
        lax.ragged_dot_general(f(5, 2, 6), f(5, 6, 3), arr([2, 3]), N((((2,), (1,)), ((0,), (0,))), [0], []))
    """,
    "refused": """
        lax.ragged_dot_general(f(6, 3), f(4, 3, 2), arr([2, 1, 2]), N((((1,), (1,)), ((), ())), [0], [0]))
        lax.ragged_dot_general(f(6, 3), f(4, 3, 2), arr([2, 1, 0, 2]), N((((1,), (1,)), ((), ())), [0], []))
        lax.ragged_dot_general(f(6, 3), f(4, 3, 2), arr([2, 1, 0, 2]), N((((1,), (1,)), ((), ())), [0, 1], [0]))
        lax.ragged_dot_general(f(6, 3), f(4, 3, 2), arr([[2, 1, 0, 2]]), N((((1,), (1,)), ((), ())), [0], [0]))
        lax.ragged_dot_general(f(2, 6), f(6, 3), arr([2, 1, 0, 2]), N((((1,), (0,)), ((), ())), [1], [0]))
        lax.ragged_dot_general(f(6, 3), f(4, 3, 2), arr([2, 1, 0, 2]), N((((1,), (1,)), ((), ())), [0], [1]))
    """,
}


def _cases() -> Iterable[Case]:
    return cases({group: text.replace(" N(", f" {NUMBERS}(") for group, text in VALUES.items()})


TOPIC = Topic("ragged", _cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
