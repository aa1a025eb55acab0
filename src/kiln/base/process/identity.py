"""Which of the processes of a program this one is. Alone, it is number 0 of 1."""

from __future__ import annotations

from kiln.base.records import Record


class Processes(Record):
    """The number of this process, and how many there are."""

    index: int = 0
    count: int = 1


_here = Processes()
_is_told = False


def processes() -> Processes:
    """Return the number of this process, and how many there are."""
    return _here


def process_index() -> int:
    """Return the number of this process."""
    return _here.index


def process_count() -> int:
    """Return the number of processes."""
    return _here.count


def told() -> Processes:
    """Return the same to a user: from now on it must not change."""
    global _is_told
    _is_told = True
    return _here


def is_told() -> bool:
    """Tell whether a user has read it."""
    return _is_told


def become(index: int, count: int) -> None:
    """Record that this process is one of several."""
    global _here
    _here = Processes(index, count)
