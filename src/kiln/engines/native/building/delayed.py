"""Values that are computed where they are used, as the next equation is lowered."""

from __future__ import annotations

from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.building.element_types import Scalar
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.statements import Axis

MOST_DELAYED = 100
"""So many equations are one expression, at most, before passes look at them."""


class Delayed(NamedTuple):
    """A value that no statement computes yet: the next equation is the only one that uses it."""

    layout: Layout
    axes: tuple[Axis, ...]
    value: Scalar
    source: Any
    work: float
    """Of its own equation, roughly in instructions."""
    parts: tuple[Delayed, ...]
    equations: int
    """Its own and those of its parts."""

    def lines(self) -> dict[Any, float]:
        """Return the places in the user's code that it consists of, each with its work."""
        found, stack = [], [self]
        while stack:
            found.append(stack.pop())
            stack.extend(found[-1].parts)
        lines: dict[Any, float] = {}
        for each in reversed(found):
            lines[each.source] = lines.get(each.source, 0.0) + each.work
        return lines
