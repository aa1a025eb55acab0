"""Keys that are hashed once."""

from __future__ import annotations

from kiln.base.caches.hashed import Hashed


class Counted:
    def __init__(self, value: int) -> None:
        self.value = value
        self.hashed = 0

    def __hash__(self) -> int:
        self.hashed += 1
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and other.value == self.value


def test_a_key_is_hashed_once() -> None:
    inner = Counted(3)
    key = Hashed(("a", inner))
    found = {Hashed((key, 1)): "found"}
    assert found[Hashed((key, 1))] == "found"
    assert inner.hashed == 1


def test_equal_keys_are_equal() -> None:
    assert Hashed((1, "a")) == Hashed((1, "a"))
    assert Hashed((1, "a")) != Hashed((1, "b"))
    assert Hashed(1) != 1
    # The same hash is not enough.
    assert Hashed(-1) != Hashed(-2)
