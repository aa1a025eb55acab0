"""The table of programs by content, and constants that are operands."""

from __future__ import annotations

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.base.tree import Partial, tree_structure
from kiln.content.by_content import constants_from, is_plain, slots_of


def test_constants_are_operands_or_stay() -> None:
    a, b, c = jnp.ones(1), jnp.ones(2), jnp.ones(3)
    slots = slots_of([b, c, a, b], [a, b])
    assert slots is not None
    again = constants_from(slots, [c, a])
    assert [x.shape for x in again] == [(1,), (3,), (3,), (1,)]
    assert again[0] is a
    assert again[1] is c


def test_keys_of_dicts_that_equality_does_not_tell_apart() -> None:
    for plain in ({"a": 0, "b": [0, (0, None)]}, {1: 0, 2: {3: 0}}, []):
        assert is_plain(tree_structure(plain))
    for other in ({1.0: 0}, {True: 0}, [{True: 0, 2: 0}], {"a": {1j: 0}}):
        assert not is_plain(tree_structure(other))
    assert not is_plain(tree_structure(Partial(abs, 1)))
    assert is_plain(tree_structure([Partial(abs, 1)]), Partial)


def test_a_traced_constant_cannot_be_kept() -> None:
    found = []
    kiln.jit(lambda x: found.append(slots_of([x], [])) or x)(np.float32(1))
    assert found == [None]
