"""Large keys that are hashed once, however often they are looked up or nested in others."""

from __future__ import annotations

from collections.abc import Hashable


class Hashed:
    """A key with its hash; equal to those of equal keys."""

    __slots__ = ("hash", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.hash = hash(key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Hashed):
            return NotImplemented
        return self.hash == other.hash and self.key == other.key
