"""Programs that fall back from the native engine to XLA: how many, which, and why."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager

from kiln._runtime import Listed
from kiln.base.named_tuples import NamedTuple
from kiln.base.process.forks import new_lock


class Fallback(NamedTuple):
    """A program that fell back to XLA because a part of it is not compiled for the host."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


_lock = new_lock()
_counts: Counter[str] = Counter()
_collectors: list[list[Fallback]] = []


def note(name: str, reason: str) -> None:
    """Count a program, and notify all collectors."""
    made = Fallback(name, reason)
    with _lock:
        _counts[reason] += 1
        for collector in tuple(_collectors):
            collector.append(made)


def fallback_counts() -> dict[str, int]:
    """Return how many programs of this process fell back to XLA so far, by reason.

    A program is counted when it is compiled for the first time, not on each call. Programs that are
    placed on other devices, or have compiler options of XLA, are XLA's own and not counted.

    Example:
        >>> isinstance(kiln.fallback_counts(), dict)
        True
    """
    with _lock:
        return dict(_counts)


def explain_fallbacks() -> AbstractContextManager[list[Fallback]]:
    """Collect the programs that fall back to XLA, on any thread, each with the reason.

    Example:
        >>> with kiln.explain_fallbacks() as records:
        ...     _ = kiln.jit(jnp.sin)(jnp.ones(3))
        >>> records
        []
        >>> isinstance(kiln.fallback_counts(), dict)
        True
    """
    return Listed(_collectors, [])
