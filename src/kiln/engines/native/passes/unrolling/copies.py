"""A nest with an axis unrolled: each of its effects once per index."""

from __future__ import annotations

from kiln.engines.native.loop_ir.statements import Axis, Index, Nest, Reduce, Store, axis_index
from kiln.engines.native.passes.rebuilding import with_axes


def unrolled(nest: Nest, axis: Axis, count: int) -> Nest:
    """Return a nest that takes `count` indices of an axis at a time, a divisor of its size."""
    rest = Axis(axis.name, axis.size // count)
    effects: list[Store | Reduce] = []
    for i in range(count):
        index = axis_index(rest) * count + Index(i)
        effects += with_axes(nest, (), {axis: index}).effects
    axes = [rest if a is axis else a for a in nest.axes if a is not axis or rest.size != 1]
    return Nest(axes, effects, source=nest.source, lines=nest.lines)
