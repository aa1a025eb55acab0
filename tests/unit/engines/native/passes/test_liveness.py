"""What is live in a loop: what each iteration reads lasts, though nothing after it reads that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln.numpy as jnp
from kiln import lax
from tests.unit.engines.native.passes.agreement import agree, numbers

Turn = Callable[[Any, Any], Any]


def _while(turn: Turn, start: Any) -> Any:
    def body(state: Any) -> Any:
        return state[0] + 1, turn(*state)

    return lax.while_loop(lambda state: state[0] < 4, body, (0, start))[1]


def _condition(turn: Turn, start: Any) -> Any:
    """Return the number of iterations: the condition computes what the others compute in them."""

    def goes_on(state: Any) -> Any:
        return (state[0] < 9) & (turn(state[0], start).sum() < state[1])

    return lax.while_loop(goes_on, lambda state: (state[0] + 1, state[1]), (0, start.sum() + 500))


LOOPS: dict[str, Callable[[Turn, Any], Any]] = {
    "for": lambda turn, start: lax.fori_loop(0, 4, turn, start),
    "scan": lambda turn, start: lax.scan(
        lambda c, i: (turn(i, c), c[0]), start, jnp.arange(4), reverse=True
    ),
    "while": _while,
    "condition": _condition,
}


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("is_read_after", [False, True])
def test_what_each_turn_changes_in_a_copy(kind: str, is_read_after: bool) -> None:
    def fun(x: Any) -> Any:
        table = jnp.cumsum(x)
        of_turns = LOOPS[kind](lambda i, c: c + table.at[i].add(100), x)
        return (of_turns, table) if is_read_after else of_turns

    agree(fun, (numbers(6),), (np.full(6, 30, np.int32),))
