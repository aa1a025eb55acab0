"""Recording the assumptions of decisions about named sizes.

Sizes are compared as if every name were a size >= 1 (`size.py`), and two that are not the same for
all values of the names are unequal. While a program is recorded for all sizes, the assumptions are
collected: names, which must not be 0, and differences of sizes, which must not be 0 either. Sizes
that violate them need a program of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from contextlib import AbstractContextManager

from kiln._runtime import Assigned


class _State(threading.local):
    """Per thread: the sets being collected, outermost first, and the names in scope."""

    collecting: tuple[tuple[set[Hashable], ...], tuple[str, ...]] = (), ()


_state = _State()


def collecting(names: Iterable[str] = ()) -> AbstractContextManager[set[Hashable]]:
    """Collect the assumptions made inside; `names` are the named axes of the recorded program."""
    found: set[Hashable] = set()
    outer, scope = _state.collecting
    return Assigned(_state, "collecting", ((*outer, found), (*scope, *names)), found)


def is_collecting() -> bool:
    """Tell whether assumptions are being collected."""
    return bool(_state.collecting[0])


def assume_not_zero(sizes: Iterable[Hashable]) -> None:
    """Record that a decision assumed sizes, or those of named axes, not to be 0."""
    for found in _state.collecting[0]:
        found.update(sizes)


def names_in_scope() -> tuple[str, ...]:
    """Return the named axes of the programs being recorded."""
    return _state.collecting[1]
