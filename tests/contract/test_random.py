"""Section 14: random numbers."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import random
from tests.contract.marks import contract


@contract("14")
@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1, 2**32 + 5, -1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("x64", [False, True])
def test_seeds(seed, x64) -> None:
    """A seed is an int64; without x64 its low half is all that is left of it."""
    with kiln.enable_x64(x64):
        words = [(seed >> 32) & 0xFFFFFFFF if x64 else 0, seed & 0xFFFFFFFF]
        made = random.key_data(random.key(seed))
        assert np.asarray(made).tolist() == words
        jitted = kiln.jit(lambda: random.key_data(random.key(seed)))()
        assert np.asarray(jitted).tolist() == words
        raw = random.PRNGKey(seed)
        assert (raw.shape, raw.dtype, raw.tolist()) == ((2,), np.uint32, words)


@contract("14")
def test_seeds_that_are_no_int64() -> None:
    for seed in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError, match="int64"):
            random.key(seed)


@contract("14")
def test_both_kinds_of_keys_give_one_stream() -> None:
    typed, raw = random.key(3), random.PRNGKey(3)
    for draw in (
        lambda key: random.normal(key, (5,)),
        lambda key: random.uniform(key, (2, 3)),
        lambda key: random.bits(key, (4,)),
        lambda key: random.randint(key, (4,), 0, 100),
        lambda key: random.normal(random.split(key)[1], (3,)),
        lambda key: random.normal(random.fold_in(key, 9), (3,)),
    ):
        np.testing.assert_array_equal(draw(typed), draw(raw))


@contract("14")
def test_the_counter_layouts() -> None:
    key = random.key(0)
    original = [-0.3721109, 0.26423115, -0.18252768, -0.7368197, -0.44030377]
    current = [1.6226422, 2.0252647, -0.4335944]
    np.testing.assert_allclose(random.normal(key, (10,))[:5], original, rtol=2e-6)
    with kiln.threefry_partitionable(True):
        np.testing.assert_allclose(random.normal(key, (10,))[:3], current, rtol=2e-6)
        jitted = kiln.jit(lambda key: random.normal(key, (10,)))
        np.testing.assert_allclose(jitted(key)[:3], current, rtol=2e-6)
        with kiln.threefry_partitionable(False):
            np.testing.assert_allclose(jitted(key)[:5], original, rtol=2e-6)


@contract("14")
def test_threefry_of_twenty_rounds() -> None:
    # The known answer of the Random123 distribution for a key and a counter of zeros.
    first, second = 0x6B200159, 0x99BA4EFE
    assert random.bits(random.key(0), (1,))[0] == first
    with kiln.threefry_partitionable(True):
        assert random.bits(random.key(0), (1,))[0] == first ^ second


@contract("14")
def test_jit_and_eager_agree(engine) -> None:
    for draw in (
        lambda key: random.bits(key, (7,)),
        lambda key: random.uniform(key, (7,)),
        lambda key: random.permutation(key, 10),
        lambda key: random.split(key, 3)[2],
        lambda key: random.bernoulli(key, 0.3, (9,)),
    ):
        key = random.key(42)
        eager, compiled = draw(key), kiln.jit(draw)(key)
        if eager.dtype == key.dtype:
            eager, compiled = random.key_data(eager), random.key_data(compiled)
        np.testing.assert_array_equal(eager, compiled)
