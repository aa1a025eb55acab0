"""Watching arrays during recording: does the program depend on more than their types?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any


class Watch:
    """Arrays whose values a recorded program should not depend on; `seen` tells that it does."""

    __slots__ = ("_arrays", "seen")

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._arrays = {id(x) for x in arrays}
        self.seen = False

    def note(self, x: Any) -> None:
        """Record that the value of an array was read."""
        if id(x) in self._arrays:
            self.seen = True


WATCHES: list[Watch] = []


@contextlib.contextmanager
def watched(arrays: Sequence[Any]) -> Iterator[Watch]:
    """Record, until the context ends, whether values of the arrays are read."""
    watch = Watch(arrays)
    WATCHES.append(watch)
    try:
        yield watch
    finally:
        WATCHES.remove(watch)


def note_look(x: Any) -> None:
    """Record that a property of an array beyond its type was read."""
    for watch in tuple(WATCHES):
        watch.note(x)
