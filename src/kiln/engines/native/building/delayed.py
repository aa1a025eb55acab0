"""Delayed values, which are computed where the next equation uses them."""

from __future__ import annotations

from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.building.element_types import Scalar
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.statements import Axis

MOST_DELAYED = 100
"""The most equations that form one expression before passes run."""


class Delayed(NamedTuple):
    """A value that no statement computes yet: its only use is the next equation."""

    layout: Layout
    axes: tuple[Axis, ...]
    value: Scalar
    source: Any
    work: float
    """The work of its own equation, roughly in instructions."""
    parts: tuple[Delayed, ...]
    equations: int
    """Its own work and that of its parts."""

    def lines(self) -> dict[Any, float]:
        """Return the lines of the user's code that it consists of, each with its work."""
        found, stack = [], [self]
        while stack:
            found.append(stack.pop())
            stack.extend(found[-1].parts)
        lines: dict[Any, float] = {}
        for each in reversed(found):
            lines[each.source] = lines.get(each.source, 0.0) + each.work
        return lines
