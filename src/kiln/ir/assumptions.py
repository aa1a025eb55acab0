"""Which decisions about named sizes need that a size is not 0.

Sizes are compared as if every name stood for a size >= 1 (`sizes.py`). Whoever records a program
for all sizes collects here the names for which a decision would not have been possible otherwise:
for those, an axis of size 0 needs a program of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class _State(threading.local):
    """Per thread: the sets being collected, outermost first, and the names in scope."""

    def __init__(self) -> None:
        self.collected: list[set[str]] = []
        self.scope: tuple[str, ...] = ()


_state = _State()


@contextmanager
def collecting(names: Iterable[str] = ()) -> Iterator[set[str]]:
    """Collect the assumptions made inside; `names` are the named axes of the program recorded."""
    found: set[str] = set()
    previous = _state.scope
    _state.collected.append(found)
    _state.scope = (*previous, *names)
    try:
        yield found
    finally:
        _state.collected.pop()
        _state.scope = previous


def is_collecting() -> bool:
    """Tell whether anybody wants to know."""
    return bool(_state.collected)


def assume_positive(names: Iterable[str]) -> None:
    """Note that a decision needed the sizes of these axes to be at least 1."""
    for found in _state.collected:
        found.update(names)


def names_in_scope() -> tuple[str, ...]:
    """Return the named axes of the programs being recorded."""
    return _state.scope
