"""Copies of host data that XLA reads in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kiln import _runtime

OWN_COPY_BYTES = 1 << 15
"""Copies of at least this size reuse memory: XLA's would use fresh pages, with page faults."""


def copied(value: np.ndarray) -> np.ndarray:
    """Return a contiguous copy in memory that is aligned for XLA."""
    memory = memoryview(_runtime.allocate(value.nbytes))
    copy = np.frombuffer(memory, value.dtype).reshape(value.shape)
    np.copyto(copy, value)
    return copy


def each_copied_once(pieces: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return copies of pieces; identical objects are copied once, and devices share the copy.

    It is never written to: XLA copies donated memory that it does not own.
    """
    copies = {id(piece): piece for piece in pieces}
    for key, piece in copies.items():
        copies[key] = copied(piece)
    return [copies[id(piece)] for piece in pieces]
