"""The hash function Threefry-2x32, twenty rounds.

Source: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.ir.types import ShapedArray
from kiln.ops.elements.families import Elementwise

UINT32 = np.dtype(np.uint32)
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
_FEW = 8


class Threefry2x32(Elementwise):
    """Hash the counter (x0, x1) under the key (k0, k1). Scalars combine with arrays."""

    multiple = True

    def infer(self, *words: Any) -> list[ShapedArray]:
        if any(word.dtype != UINT32 for word in words):
            raise TypeError(
                three_lines(
                    f"threefry2x32: operands {', '.join(map(str, words))} at {current_source()}",
                    "all four words must be uint32",
                    "convert first: x.astype('uint32')",
                )
            )
        out = super().infer(*words).with_(weak_type=False)
        return [out, out]

    def numpy(self, k0: Any, k1: Any, x0: Any, x1: Any) -> Any:
        return hash_words(k0, k1, x0, x1)

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any]) -> Any:
        outs, axis = super().batch(size, xs, axes)
        return outs, [axis, axis]


def hash_words(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[np.ndarray, np.ndarray]:
    """Hash counters under keys, in NumPy; operands broadcast."""
    together = np.broadcast(k0, k1, x0, x1)
    shape = together.shape
    if together.size <= _FEW:
        # Python ints avoid NumPy's cost per call: splitting one key takes microseconds.
        pairs = [_hash_pair(*map(int, words)) for words in together]
        hashed = np.array(pairs, UINT32).reshape((*shape, 2))
        return hashed[..., 0], hashed[..., 1]
    keys = [np.asarray(k0, UINT32), np.asarray(k1, UINT32)]
    keys.append(keys[0] ^ keys[1] ^ UINT32.type(PARITY))
    a, b, rotated = (np.empty(shape, UINT32) for _ in range(3))
    np.add(x0, keys[0], out=a)
    np.add(x1, keys[1], out=b)
    for i in range(5):
        for distance in ROTATIONS[i % 2]:
            a += b
            np.right_shift(b, UINT32.type(32 - distance), out=rotated)
            b <<= UINT32.type(distance)
            b |= rotated
            b ^= a
        a += keys[(i + 1) % 3]
        b += keys[(i + 2) % 3]
        b += UINT32.type(i + 1)
    return a, b


def _hash_pair(k0: int, k1: int, x0: int, x1: int) -> tuple[int, int]:
    keys = (k0, k1, k0 ^ k1 ^ PARITY)
    a, b = x0 + k0, (x1 + k1) & 0xFFFFFFFF
    for i in range(5):
        for distance in ROTATIONS[i % 2]:
            a = (a + b) & 0xFFFFFFFF
            b = (b << distance & 0xFFFFFFFF | b >> (32 - distance)) ^ a
        a += keys[(i + 1) % 3]
        b = (b + keys[(i + 2) % 3] + i + 1) & 0xFFFFFFFF
    return a & 0xFFFFFFFF, b


threefry2x32_p = Threefry2x32("threefry2x32", hash_words, (np.integer,))


def threefry2x32(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Hash the counter (x0, x1) under the key (k0, k1), all uint32."""
    first, second = threefry2x32_p.bind(k0, k1, x0, x1)
    return first, second
