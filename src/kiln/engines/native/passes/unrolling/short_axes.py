"""Unrolling of short axes on which the expensive part of a nest does not depend.

Vectors along such an axis have mostly idle lanes, and the expensive part is computed in scalars for
each point of the other axes; once the axis is unrolled, it is vectorized along another one.
"""

from __future__ import annotations

from collections.abc import Sequence

from kiln.engines.native.loop_ir.buffers import nodes
from kiln.engines.native.loop_ir.extents import estimate, is_named
from kiln.engines.native.loop_ir.scalars import Value, cost
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Function,
    Nest,
    Reduce,
    Statement,
    Store,
)
from kiln.engines.native.passes.unrolling.copies import unrolled

MOST_WRITTEN = 4
"""Longer axes are not unrolled."""
FEWEST_OTHERS = 16
"""The length of the other axis, along which the expensive part is vectorized."""
DEAR = 16
MOST_NODES = 120


def write_out(function: Function) -> None:
    """Unroll the short axes of all nests that gain from it."""
    _in_block(function.body)


def _in_block(statements: list[Statement]) -> None:
    for i, statement in enumerate(statements):
        for block in statement.blocks:
            _in_block(block)
        if isinstance(statement, Nest) and not statement.ordered:
            axis = _short_axis(statement)
            if axis is not None:
                statements[i] = unrolled(statement, axis, int(axis.size))


def _short_axis(nest: Nest) -> Axis | None:
    """Return a short axis on which little of a nest depends."""
    for axis in nest.axes:
        size = 0 if is_named(axis.size) else int(axis.size)
        if not 1 < size <= MOST_WRITTEN:
            continue
        others = [a for a in nest.axes if a is not axis and estimate(a.size) >= FEWEST_OTHERS]
        if not others or not all(_can_be_written(effect, axis) for effect in nest.effects):
            continue
        every = nodes(nest)
        varying = _depending(every, {axis})
        fixed = [x for x in _depending(every, set(others)) if x not in varying]
        if sum(map(cost, fixed)) >= DEAR and len(every) + size * len(varying) <= MOST_NODES:
            return axis
    return None


def _can_be_written(effect: Store | Reduce, axis: Axis) -> bool:
    if isinstance(effect, Reduce):
        return effect.index.factor(axis) != 0 and effect.along is None
    return effect.mask is None and not effect.index.operands


def _depending(every: Sequence[Value], axes: set[Axis]) -> set[Value]:
    """Return the nodes, of all with operands first, that depend on some axes."""
    found: set[Value] = set()
    for x in every:
        index = x.attr[1] if x.op == "load" else x.attr if x.op == "index" else None
        own = index is not None and any(axis in axes for axis, _ in index.axes())
        if own or any(y in found for y in x.operands):
            found.add(x)
    return found
