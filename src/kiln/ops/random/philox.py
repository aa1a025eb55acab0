"""The hash function Philox-4x32, ten rounds.

Source: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

UINT32 = np.dtype(np.uint32)
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
INCREMENTS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def hash_counters(key: tuple[int, int], counters: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Hash counters of four uint32 words, the lowest first, under a key of two."""
    a, b, c, d = counters
    first, second = key
    for _ in range(ROUNDS):
        high0, low0 = _product(MULTIPLIERS[0], a)
        high1, low1 = _product(MULTIPLIERS[1], c)
        a, b = high1 ^ b ^ UINT32.type(first), low1
        c, d = high0 ^ d ^ UINT32.type(second), low0
        first = (first + INCREMENTS[0]) & 0xFFFFFFFF
        second = (second + INCREMENTS[1]) & 0xFFFFFFFF
    return [a, b, c, d]


def _product(factor: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the high and the low word of a product of words."""
    product = x.astype(np.uint64) * np.uint64(factor)
    return (product >> np.uint64(32)).astype(UINT32), product.astype(UINT32)
