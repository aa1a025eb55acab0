"""The table of programs by content, and constants that are operands."""

from __future__ import annotations

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.content.by_content import constants_from, slots_of


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
