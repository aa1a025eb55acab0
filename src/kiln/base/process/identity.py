"""Which of the processes of a program this one is. Alone, it is number 0 of 1."""

from __future__ import annotations

from kiln.base.records import Record


class Processes(Record):
    """The number of this process, and how many there are."""

    index: int = 0
    count: int = 1


_here = Processes()
_is_frozen = False


def processes() -> Processes:
    """Return the number of this process, and how many there are."""
    return _here


def process_index() -> int:
    """Return the number of this process."""
    return _here.index


def process_count() -> int:
    """Return the number of processes."""
    return _here.count


def freeze_processes() -> Processes:
    """Return the same, and freeze it: a user has read it, so it must not change."""
    global _is_frozen
    _is_frozen = True
    return _here


def is_frozen() -> bool:
    """Tell whether a user has read the number of this process or of all."""
    return _is_frozen


def become(index: int, count: int) -> None:
    """Record that this process is one of several."""
    global _here
    _here = Processes(index, count)
