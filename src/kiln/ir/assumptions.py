"""Recording which decisions about named sizes assume that a size is not 0.

Sizes are compared as if every name were a size >= 1 (`sizes.py`). While a program is recorded for
all sizes, the names are collected for which a decision would not have been possible otherwise: for
those, an axis of size 0 needs its own program.
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
    """Collect the assumptions made inside; `names` are the named axes of the recorded program."""
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
    """Tell whether assumptions are being collected."""
    return bool(_state.collected)


def assume_positive(names: Iterable[str]) -> None:
    """Record that a decision needed the sizes of these axes to be at least 1."""
    for found in _state.collected:
        found.update(names)


def names_in_scope() -> tuple[str, ...]:
    """Return the named axes of the programs being recorded."""
    return _state.scope
