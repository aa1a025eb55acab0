"""Logic: results that do not depend on values are arrays as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp

CONSTANT: list[tuple[Callable[[Any], Any], bool]] = [
    (jnp.isinf, False),
    (jnp.isfinite, True),
    (jnp.isneginf, False),
    (jnp.isposinf, False),
    (jnp.iscomplex, False),
    (jnp.isreal, True),
    (lambda x: jnp.array_equal(x, jnp.ones(2)), False),
    (lambda x: jnp.array_equiv(jnp.ones(2), jnp.ones(3)), False),
]


@pytest.mark.parametrize(("question", "answer"), CONSTANT)
def test_known_answers_are_arrays(question: Callable[[Any], Any], answer: bool) -> None:
    for operand in (3, jnp.asarray(3)):
        found = question(operand)
        assert isinstance(found, kiln.Array)
        assert found.aval == jnp.asarray(answer).aval
        assert bool(found.block_until_ready()) == answer
    assert bool(kiln.jit(question)(3)) == answer
