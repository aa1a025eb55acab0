"""Generators with a state of their own: all algorithms, widths and odd sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln import lax
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
