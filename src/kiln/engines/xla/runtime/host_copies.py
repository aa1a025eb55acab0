"""Copies of host data that XLA reads where they lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kiln import _runtime

OWN_COPY_BYTES = 1 << 15
"""Copies from here on go to memory used before: XLA's are fresh pages, each with a fault."""


def copied(value: np.ndarray) -> np.ndarray:
    """Return a contiguous copy in memory that is aligned for XLA."""
    memory = memoryview(_runtime.allocate(value.nbytes))
    copy = np.frombuffer(memory, value.dtype).reshape(value.shape)
    np.copyto(copy, value)
    return copy


def each_copied_once(pieces: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return copies of pieces; those that are one object are one copy, which devices share.

    Nothing is written into it: XLA copies memory that it does not own if it is donated.
    """
    copies = {id(piece): piece for piece in pieces}
    for key, piece in copies.items():
        copies[key] = copied(piece)
    return [copies[id(piece)] for piece in pieces]
