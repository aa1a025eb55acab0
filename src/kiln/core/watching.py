"""Arrays that are watched while a program is recorded: does it depend on more than their types?"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any


class Watch:
    """Arrays whose values a recorded program is not to depend on; `seen` tells that it does."""

    __slots__ = ("_arrays", "_thread", "seen")

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._arrays = {id(x) for x in arrays}
        self._thread = threading.get_ident()
        self.seen = False

    def note(self, x: Any) -> None:
        """Note that the value of an array was looked at."""
        if id(x) in self._arrays:
            self.seen = True

    def is_here(self) -> bool:
        """Tell whether this thread is recording under the watch."""
        return self._thread == threading.get_ident()


WATCHES: list[Watch] = []


@contextlib.contextmanager
def watched(arrays: Sequence[Any]) -> Iterator[Watch]:
    """Note, until the context ends, whether values of the arrays are looked at."""
    watch = Watch(arrays)
    WATCHES.append(watch)
    try:
        yield watch
    finally:
        WATCHES.remove(watch)


def note_look(x: Any) -> None:
    """Note that what may differ between arrays of one type was looked at."""
    for watch in tuple(WATCHES):
        watch.note(x)


def watches_here() -> list[Watch]:
    """Return the watches under which this thread is recording."""
    return [watch for watch in WATCHES if watch.is_here()] if WATCHES else WATCHES
