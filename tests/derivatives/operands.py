"""The operands of the table of derivatives: each letter names a kind of random array in 64 bits.

No operand is symmetric, of equal elements, or at a point where the functions are not smooth.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

SHAPES = {
    # A few generic numbers, in two rows; `v` and `u` are vectors.
    **dict.fromkeys("xyw", (2, 3)),
    **dict.fromkeys("vu", (4,)),
    "m": (3, 2),
    "B": (2, 3, 4),
    # Positive, in the unit interval, between -1 and 1, above 1.
    **dict.fromkeys("pqrokdg", (2, 3)),
    # Matrices: square, stacked, positive definite, tall, wide.
    "s": (3, 3),
    "S": (2, 3, 3),
    "h": (3, 3),
    "H": (2, 3, 3),
    "t": (4, 3),
    "W": (3, 4),
    # Images and signals, a row of channels last.
    "I": (1, 2, 5, 6),
    "F": (3, 2, 2, 3),
    "n": (12,),
}
RANGES = {"p": (0.3, 1.8), "q": (0.3, 1.8), "r": (0.3, 1.8), "g": (1.2, 2.5)}
RANGES |= {"o": (0.15, 0.85), "k": (0.15, 0.85), "d": (-0.85, 0.85)}
SPREAD = {"s": 3.0, "S": 3.0, "h": 4.0, "H": 4.0}
"""What is added on the diagonal of square matrices, times 1, 2, 3: their eigenvalues differ."""


def operand(letter: str, seed: str, complex_numbers: bool = False) -> np.ndarray:
    """Draw the array that a letter names; `seed` says for whom."""
    rng = np.random.default_rng(zlib.crc32(f"{letter} {seed}".encode()))
    low, high = RANGES.get(letter, (-1.9, 1.9))
    shape = SHAPES[letter]
    found = rng.uniform(low, high, shape)
    if complex_numbers:
        found = found + 1j * rng.uniform(-0.9, 0.9, shape)
    if letter in SPREAD:
        found = found / 2 + SPREAD[letter] * np.diag(np.arange(1.0, shape[-1] + 1))
    return found


def direction(like: Any, seed: str) -> np.ndarray:
    """Draw a tangent or cotangent of the shape and type of an array."""
    rng = np.random.default_rng(zlib.crc32(f"direction {seed}".encode()))
    found = rng.uniform(-1, 1, like.shape)
    if like.dtype.kind == "c":
        found = found + 1j * rng.uniform(-1, 1, like.shape)
    return found.astype(like.dtype)
