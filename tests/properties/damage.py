"""Bytes that were damaged: cut, flipped, overwritten, or with a piece lost or another in its place."""

from __future__ import annotations

import random


def damaged(stored: bytes, seed: int) -> bytes:
    """Return other bytes than these, by the damage that a number stands for."""
    chance = random.Random(seed)
    while (found := _damaged(stored, chance)) == stored:
        pass
    return found


def _damaged(stored: bytes, chance: random.Random) -> bytes:
    kind, changed = chance.randrange(4), bytearray(stored)
    if kind == 0:
        return bytes(changed[: chance.randrange(len(changed))])
    if kind == 3:
        begin = chance.randrange(len(changed))
        end = min(len(changed), begin + chance.randrange(1, 64))
        size = chance.choice([0, end - begin, chance.randrange(64)])
        changed[begin:end] = chance.randbytes(size)
        return bytes(changed)
    for _ in range(chance.choice([1, 1, 2, 8])):
        at = chance.randrange(len(changed))
        if kind == 1:
            changed[at] ^= 1 << chance.randrange(8)
        else:
            changed[at] = chance.choice([0, 127, 128, 255, chance.randrange(256)])
    return bytes(changed)
