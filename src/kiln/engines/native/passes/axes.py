"""Splitting one axis into several."""

from __future__ import annotations

import math

from kiln.engines.native.loop_ir.extents import at_least, estimate, is_positive
from kiln.engines.native.loop_ir.statements import Axis, Index, Nest, Reduce
from kiln.engines.native.passes.rebuilding import with_axes


def split_axes(nest: Nest, stored: Index, read: Index) -> Nest | None:
    """Return a nest in the axes of a store, if it reads what is stored there along fewer axes.

    A value of shape [a, b] that is read as [a * b] is read by a nest whose axis is split in two.
    None if the axes do not fit.
    """
    terms = sorted(stored.axes(), key=lambda term: estimate(term[1]))
    for axis, factor in read.axes():
        if axis not in nest.axes or not is_positive(factor) or _is_counted(nest, axis):
            continue
        parts, step, end = [], factor, factor * axis.size
        for mine, f in terms:
            if f == step and step != end and at_least(end, step):
                parts.append(mine)
                step *= mine.size
        if len(parts) < 2 or math.prod(part.size for part in parts) != axis.size:
            continue
        parts.reverse()
        if any(part in nest.axes for part in parts):
            parts = [Axis(part.name, part.size) for part in parts]
        index, step = Index(), 1
        for part in reversed(parts):
            index += Index(0, ((part, step),))
            step *= part.size
        place = nest.axes.index(axis)
        return with_axes(nest, [*nest.axes[:place], *parts, *nest.axes[place + 1 :]], {axis: index})
    return None


def _is_counted(nest: Nest, axis: Axis) -> bool:
    """Tell whether an axis's own number is a result."""
    return any(isinstance(e, Reduce) and e.along is axis for e in nest.effects)
