"""The assembler's code gives the same bits as LLVM's."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.engines.native.llvm import target
from tests.unit._runtime.assembler.random_modules import RandomModule
from tests.unit._runtime.assembler.running import (
    LEVELS_HERE,
    assert_same,
    needs_level,
    operand,
)

pytestmark = needs_level
LANES = (1, 2, 4, 8, 16, 32, 64)


def check(lanes: int, seed: int, count: int) -> None:
    for level in LEVELS_HERE:
        rng = np.random.default_rng([lanes, seed])
        text, size = RandomModule(rng, lanes, target.named(level).vector_bytes).text(count)
        assert_same(text, [operand(rng)], size, [level])


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("seed", range(2))
def test_random_functions(lanes: int, seed: int) -> None:
    """Many values are alive at once, so most of them lie on the stack."""
    check(lanes, seed, 80)


@pytest.mark.full
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("seed", range(2, 200))
def test_more_random_functions(lanes: int, seed: int) -> None:
    check(lanes, seed, 10 + seed)
