"""Tracking reads of arrays during recording: does the program depend on more than their types?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from kiln._runtime import Listed


class ReadTracker:
    """Arrays on whose values a recorded program should not depend; `was_read`: it does."""

    __slots__ = ("_arrays", "was_read")

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._arrays = {id(x) for x in arrays}
        self.was_read = False

    def note(self, x: Any) -> None:
        """Record that the value of an array was read."""
        if id(x) in self._arrays:
            self.was_read = True


READ_TRACKERS: list[ReadTracker] = []


def tracking_reads(arrays: Sequence[Any]) -> AbstractContextManager[ReadTracker]:
    """Record, until the context ends, whether values of the arrays are read."""
    return Listed(READ_TRACKERS, ReadTracker(arrays))


def note_read(x: Any) -> None:
    """Record that a property of an array beyond its type was read."""
    for tracker in tuple(READ_TRACKERS):
        tracker.note(x)
