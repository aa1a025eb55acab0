"""The arrays that libraries hold: embedded in the code, or in a file that is mapped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from kiln.base.lazy import hashlib
from kiln.base.records import Record

_BEGIN = b"kiln constants 1"
HEADER = 64
"""Bytes before the first array: a name, zeros, and a SHA-256 of the rest."""
_LINE = 64


class Constants(Record):
    """Arrays by digest: the symbol of each, its place in the file, its bytes."""

    symbols: Mapping[bytes, str]
    places: Mapping[bytes, int]
    blocks: Mapping[bytes, bytes]

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(map(len, self.blocks.values()))

    def file(self) -> bytes:
        """Return the file to map."""
        out = bytearray(HEADER)
        for digest, place in self.places.items():
            out += bytes(place - len(out)) + self.blocks[digest]
        out[:HEADER] = _BEGIN.ljust(HEADER - 32, b"\0") + hashlib.sha256(out[HEADER:]).digest()
        return bytes(out)


def digest(value: np.ndarray) -> bytes:
    """Return what equal arrays have in common."""
    found: bytes = hashlib.sha256(value.tobytes()).digest()
    return found


def constants_of(values: Iterable[np.ndarray]) -> Constants:
    """Return arrays, equal ones once."""
    symbols: dict[bytes, str] = {}
    places: dict[bytes, int] = {}
    blocks: dict[bytes, bytes] = {}
    end = HEADER
    for value in values:
        key = digest(value)
        if key in blocks:
            continue
        symbols[key], blocks[key] = f"constant{len(blocks)}", value.tobytes()
        places[key] = -(-end // _LINE) * _LINE
        end = places[key] + len(blocks[key])
    return Constants(symbols, places, blocks)
