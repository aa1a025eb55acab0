"""The table of programs by content, and constants that are operands."""

from __future__ import annotations

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.core.by_content import ByContent, constants_from, slots_of


def test_constants_are_operands_or_stay() -> None:
    a, b, c = jnp.ones(1), jnp.ones(2), jnp.ones(3)
    slots = slots_of([b, c, a, b], [a, b])
    assert slots is not None
    again = constants_from(slots, [c, a])
    assert [x.shape for x in again] == [(1,), (3,), (3,), (1,)]
    assert again[0] is a
    assert again[1] is c


def test_a_traced_constant_cannot_be_kept() -> None:
    found = []
    kiln.jit(lambda x: found.append(slots_of([x], [])) or x)(np.float32(1))
    assert found == [None]


def test_the_least_recently_used_goes_first() -> None:
    table: ByContent[int] = ByContent(2)
    assert table.keep("a", 1) == 1
    assert table.keep("a", 2) == 1
    table.keep("b", 2)
    table.get("a")
    table.keep("c", 3)
    assert (table.get("a"), table.get("b"), table.get("c")) == (1, None, 3)
    table.clear()
    assert len(table) == 0
