"""Watching arrays during recording: does the program depend on more than their types?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from kiln._runtime import Listed


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


def watched(arrays: Sequence[Any]) -> AbstractContextManager[Watch]:
    """Record, until the context ends, whether values of the arrays are read."""
    return Listed(WATCHES, Watch(arrays))


def note_look(x: Any) -> None:
    """Record that a property of an array beyond its type was read."""
    for watch in tuple(WATCHES):
        watch.note(x)
