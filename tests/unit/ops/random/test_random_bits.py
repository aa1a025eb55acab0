"""What the generic checks of random bits do not see: errors, layouts, how keys are kept."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from kiln.api.make_jaxpr import make_jaxpr
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host, host_value
from kiln.ops.random.random_bits import (
    as_keys,
    hashed_numbers,
    random_bits,
    random_fold_in,
    random_seed,
    random_split,
    random_unwrap,
    random_wrap,
    words_of,
)

WORDS = np.array([[1, 2], [3, 4], [5, 2**32 - 1]], np.uint32)


def keys() -> Any:
    return random_wrap(from_host(WORDS.copy()))


def test_a_key_is_one_element_whose_low_half_is_the_first_word(engine: str) -> None:
    found = host_value(keys())
    assert found.dtype == np.uint64
    assert found.tolist() == [1 | 2 << 32, 3 | 4 << 32, 5 | (2**32 - 1) << 32]
    np.testing.assert_array_equal(random_unwrap(keys()), WORDS)
    np.testing.assert_array_equal(as_keys(*words_of(found)), found)


def test_keys_print_their_words_and_survive_pickling() -> None:
    assert repr(keys()[0]) == "Array((), dtype=key<fry>) overlaying:\n[1 2]"
    assert str(keys()).splitlines()[0] == "[[         1          2]"
    again = pickle.loads(pickle.dumps(keys()))
    assert again.dtype == keys().dtype
    np.testing.assert_array_equal(random_unwrap(again), WORDS)


def test_names_and_parameters() -> None:
    text = str(
        make_jaxpr(lambda w: random_bits(random_split(random_wrap(w), (3,)), 32, (3,)))(WORDS)
    )
    assert "random_wrap[impl=fry] a" in text
    assert "random_split[shape=(3,)] b" in text
    assert "random_bits[bit_width=32 shape=(3,)] c" in text
    assert "random_seed[impl=fry] a" in str(make_jaxpr(random_seed)(np.int32(3)))


def test_a_program_keeps_its_layout() -> None:
    draw = make_jaxpr(lambda w: random_bits(random_wrap(w), 8, (3,)))
    with override(threefry_partitionable=True):
        (eqn,) = [e for e in draw(WORDS).eqns if e.primitive.name == "random_bits"]
    assert eqn.params["_partitionable"]
    (eqn,) = [e for e in draw(WORDS).eqns if e.primitive.name == "random_bits"]
    assert not eqn.params["_partitionable"]


@pytest.mark.parametrize("bit_width", [8, 16, 32])
def test_narrow_elements_are_the_parts_of_words(bit_width: int) -> None:
    count = 32 // bit_width * 5
    whole = np.asarray(random_bits(keys(), 32, (5,)))
    parts = np.asarray(random_bits(keys(), bit_width, (count,)))
    np.testing.assert_array_equal(parts, whole.view(f"u{bit_width // 8}"))


def test_the_partitionable_layout_draws_each_element_alone() -> None:
    with override(threefry_partitionable=True):
        short, long = (np.asarray(random_bits(keys(), 32, (n,))) for n in (3, 10))
        split = [np.asarray(random_unwrap(random_split(keys(), (n,)))) for n in (3, 10)]
    np.testing.assert_array_equal(short, long[:, :3])
    np.testing.assert_array_equal(split[0], split[1][:, :3])


def test_wide_elements(engine: str) -> None:
    with override(enable_x64=True):
        found = np.asarray(random_bits(keys(), 64, (3,)))
        words = np.asarray(random_bits(keys(), 32, (6,))).astype(np.uint64)
        np.testing.assert_array_equal(found, words[:, :3] << np.uint64(32) | words[:, 3:])
        seeds = from_host(np.array([2**40 + 7, -1], np.int64))
        assert np.asarray(random_unwrap(random_seed(seeds))).tolist() == [
            [256, 7],
            [2**32 - 1, 2**32 - 1],
        ]


def test_a_key_does_not_give_more_than_it_can_count() -> None:
    key = keys()[0]
    with pytest.raises(ValueError, match="one key gives at most 4294967296 words"):
        make_jaxpr(lambda k: hashed_numbers(k, 2**32 + 1))(key)


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (
            lambda: random_wrap(np.zeros(3, np.uint32)),
            r"shape to end with \(2,\); got shape=\(3,\)",
        ),
        (lambda: random_wrap(np.zeros(2, np.int32)), "dtype = uint32; got dtype=int32"),
        (lambda: random_wrap(np.uint32(3)), "ndim >= 1; got ndim=0"),
        (lambda: random_seed(np.float32(1)), "PRNG key seed must be an integer"),
        (lambda: random_unwrap(np.zeros(2, np.uint32)), "must be an array of keys"),
        (lambda: random_fold_in(keys(), np.zeros(2, np.uint32)), "with the shape of the keys"),
        (lambda: random_fold_in(keys(), np.int32(2)), "the data must be uint32"),
    ],
)
def test_errors(apply: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        apply()
