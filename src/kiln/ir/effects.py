"""Effects: what an equation does besides computing its results.

Dead-code elimination keeps equations with effects. `ORDERED` ones run in program order; a
`NamedAxis` effect only says that the equation communicates over a mapped axis.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kiln.base.records import Record


class Effect(Record):
    """An effect, compared by value; `ordered` ones keep order, `keep` ones are never dropped."""

    name: str = "effect"
    ordered: bool = False
    keep: bool = True


class NamedAxis(Effect):
    """Communication over a mapped axis; the equation may be dropped if its results are unused."""

    keep: bool = False


Effects = frozenset[Any]
"""Each is an `Effect`, or belongs to another library (`own_effects.py`)."""
NO_EFFECTS: Effects = frozenset()
DEBUG = Effect("debug")
DEBUG_ORDERED = Effect("debug_ordered", ordered=True)
CHECK = Effect("check")
DEBUGGING: Effects = frozenset((DEBUG, DEBUG_ORDERED))
"""Effects that only show values."""
REF_READ = Effect("ref_read")
REF_WRITE = Effect("ref_write")
REFS: Effects = frozenset((REF_READ, REF_WRITE))
"""Making or reading a reference, and changing what it holds."""
HELD = Effect("held", keep=False)
"""A custom rule, which runs later, writes to a reference or another mutable value."""
IO = Effect("io")
IO_ORDERED = Effect("io_ordered", ordered=True)


def named_axis(name: object) -> NamedAxis:
    """Return the effect of communicating over the mapped axis `name`."""
    return NamedAxis(f"axis:{name!r}")


def union(groups: Iterable[Effects]) -> Effects:
    """Join sets of effects."""
    out = NO_EFFECTS
    for group in groups:
        if group:
            out = out | group
    return out


def must_keep(effects: Effects) -> bool:
    """Tell whether an equation with these effects is kept even if its results are unused."""
    return any(effect.keep for effect in effects)
