"""What the generic checks of generators do not see: published numbers, ranges, stacks, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.base.options.config import override
from kiln.ops.random.generators import RandomAlgorithm, rng_bit_generator, rng_uniform
from kiln.ops.random.philox import hash_counters

STATE = np.array([1, 2, 3, 4], np.uint32)


@pytest.mark.parametrize(
    ("counter", "key", "hashed"),
    [
        (0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (0xFFFFFFFF, 0xFFFFFFFF, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ],
)
def test_philox_gives_the_published_numbers(counter: int, key: int, hashed: str) -> None:
    words = hash_counters((key, key), [np.array([counter], np.uint32)] * 4)
    assert " ".join(f"{int(word[0]):08x}" for word in words) == hashed


@pytest.mark.parametrize("algorithm", RandomAlgorithm)
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_a_state_goes_on_where_the_last_one_stopped(
    engine: str, algorithm: RandomAlgorithm, dtype: str
) -> None:
    with override(enable_x64=True):
        state = np.array([7, 2**40 - 1], np.uint64)
        last, whole = rng_bit_generator(state, (24,), dtype, algorithm)
        after, first = rng_bit_generator(state, (8,), dtype, algorithm)
        end, second = rng_bit_generator(after, (16,), dtype, algorithm)
        np.testing.assert_array_equal(whole, [*np.asarray(first), *np.asarray(second)])
        np.testing.assert_array_equal(last, end)
        assert last.dtype == np.uint64


def test_default_is_philox(engine: str) -> None:
    default = rng_bit_generator(STATE, (3, 3))
    philox = rng_bit_generator(STATE, (3, 3), algorithm=RandomAlgorithm.RNG_PHILOX)
    for x, y in zip(default, philox, strict=True):
        np.testing.assert_array_equal(x, y)


def test_the_first_state_of_a_stack_draws_for_all(engine: str) -> None:
    states = np.stack([STATE, STATE + 5])
    after, bits = kiln.vmap(lambda key: rng_bit_generator(key, (3,)))(states)
    once, together = rng_bit_generator(STATE, (2, 3))
    np.testing.assert_array_equal(bits, together)
    np.testing.assert_array_equal(after, [once, states[1]])


@pytest.mark.parametrize(
    ("low", "high"),
    [(2.0, 3.0), (np.float16(-1), np.float16(1)), (-3, 4), (np.uint32(5), np.uint32(7))],
)
def test_uniform_numbers_are_in_range_and_differ(engine: str, low: Any, high: Any) -> None:
    first, second = (np.asarray(rng_uniform(low, high, (200,))) for _ in range(2))
    assert first.shape == (200,)
    assert ((first >= low) & (first < high)).all()
    assert (first != second).any()
    assert len(np.unique(first)) > 1


def test_uniform_bfloat16_never_reaches_the_upper_bound() -> None:
    one = kiln.numpy.bfloat16(1)
    with override(engine="reference"):
        drawn = np.asarray(rng_uniform(one * 0, one, (10_000,)), np.float32)
    assert drawn.max() < 1


def test_two_draws_of_one_program_differ(engine: str) -> None:
    pair = kiln.jit(lambda: [rng_uniform(0.0, 1.0, (4,)) for _ in range(2)])
    first, second = pair()
    assert (np.asarray(first) != np.asarray(second)).any()
    assert (np.asarray(pair()[0]) != np.asarray(first)).any()


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda: lax.rng_bit_generator(STATE[:2], (3,)), TypeError, "uint32[4] or uint64[2]"),
        (lambda: lax.rng_bit_generator(STATE, (3,), "int32"), TypeError, "unsupported dtype int32"),
        (lambda: lax.rng_bit_generator(STATE, (-1,)), TypeError, "nonnegative"),
        (lambda: lax.rng_uniform(0.0, np.int32(1), (3,)), ValueError, "identical dtypes"),
        (lambda: lax.rng_uniform(np.zeros(2), 1.0, (3,)), ValueError, "must be scalars"),
        (lambda: lax.rng_uniform(True, False, (3,)), TypeError, "does not accept dtype bool"),
        (lambda: lax.rng_uniform(np.int8(0), np.int8(3), (3,)), TypeError, "dtype int8"),
        (lambda: lax.rng_uniform(1j, 2j, (3,)), TypeError, "dtype complex64"),
        (
            lambda: kiln.vmap(lambda a: lax.rng_uniform(a, 1.0, (3,)))(np.zeros(2)),
            NotImplementedError,
            "Batching rule for 'rng_uniform' not implemented",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], phrase: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert phrase in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3
