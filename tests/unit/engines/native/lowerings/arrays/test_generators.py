"""Generators with a state of their own: all algorithms, widths and odd sizes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.base.options.config import override
from tests.emulated.marks import forks_beside_threads
from tests.unit.engines.native.lowerings.running import results

KEY = np.array([1, 2, 0xFFFFFFFE, 0xFFFFFFFF], np.uint32)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (8,), (3, 5), (3, 4)])
@pytest.mark.parametrize("algorithm", list(lax.RandomAlgorithm))
def test_bits_and_states(algorithm: Any, shape: tuple[int, ...], dtype: Any) -> None:
    for part in range(2):
        found, expected = results(
            lambda key, part=part: lax.rng_bit_generator(
                key, shape, dtype=dtype, algorithm=algorithm
            )[part],
            KEY,
        )
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int32", "uint64"])
def test_hidden_state_draws_other_numbers_each_time(dtype: str) -> None:
    with kiln.enable_x64(), override(engine="native"):
        low, high = np.asarray(3, dtype), np.asarray(103, dtype)
        draw = kiln.jit(lambda a, b: [kiln.lax.rng_uniform(a, b, (40, 50)) for _ in range(2)])
        first, second, third = (
            np.asarray(x, np.float64) for x in [*draw(low, high), draw(low, high)[0]]
        )
    for x in (first, second, third):
        assert x.min() >= 3
        assert x.max() < 103
        assert abs(x.mean() - 53) < 5
    assert (first != second).mean() > 0.5
    assert (first != third).mean() > 0.5


def test_each_turn_of_a_loop_draws() -> None:
    def drawn(a: Any) -> Any:
        return kiln.lax.map(lambda _: kiln.lax.rng_uniform(a, 1.0, (2,)), np.arange(20))

    with override(engine="native"):
        found = np.asarray(kiln.jit(drawn)(0.0))
    assert len(np.unique(found)) > 30


@forks_beside_threads
@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_forked_child_draws_other_numbers() -> None:
    with override(engine="native"):
        draw = kiln.jit(lambda a: kiln.lax.rng_uniform(a, 1.0, (8,)))
        draw(0.0)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, np.asarray(draw(0.0)).tobytes())
            os._exit(0)
        mine = np.asarray(draw(0.0))
        theirs = np.frombuffer(os.read(read, 32), np.float32)
        os.waitpid(pid, 0)
    assert (mine != theirs).any()
