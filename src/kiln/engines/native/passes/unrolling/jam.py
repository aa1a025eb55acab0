"""Unroll-and-jam: a nest over a stencil computes several rows at a time.

Neighboring rows of windows have most of their elements in common. Computed together, they load each
of them once; such loads are the bottleneck, since most of them cross cache lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from kiln.engines.native.loop_ir.buffers import loads, nodes
from kiln.engines.native.loop_ir.extents import estimate, is_named
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Blocked,
    Buffer,
    Function,
    Index,
    Nest,
    Statement,
)
from kiln.engines.native.passes.schedule import vector_axis
from kiln.engines.native.passes.unrolling.copies import unrolled

FEWEST_LOADS = 6
"""Of one buffer: with fewer, loads are not the bottleneck."""
FEWEST_POINTS = 1 << 8
MOST_NODES = 40
"""Of a point: all values of its copies should stay in registers."""
MOST_LEFT = 0.7
"""The part of the loads that may be left: otherwise, the nest is as fast as it was."""
COUNTS = (4, 3, 2)
"""How many rows are computed at a time, if they divide the axis."""


def jam(function: Function) -> None:
    """Compute several rows of stencils at a time."""
    _in_block(function.body)


def _in_block(statements: list[Statement]) -> None:
    for i, statement in enumerate(statements):
        # A product calls its epilogue on any range of rows.
        if isinstance(statement, Blocked) and isinstance(statement.epilogue, Nest):
            continue
        for block in statement.blocks:
            _in_block(block)
        if isinstance(statement, Nest):
            found = _rows(statement)
            if found is not None:
                statements[i] = unrolled(statement, *found)


def _rows(nest: Nest) -> tuple[Axis, int] | None:
    """Return the axis of the rows and how many of them to compute at a time."""
    if nest.ordered or not nest.is_map or is_named(nest.points) or nest.points < FEWEST_POINTS:
        return None
    if len(loads(nest)) < FEWEST_LOADS or len(nodes(nest)) > MOST_NODES:
        return None
    if any(effect.index.operands for effect in nest.effects):
        return None
    vector = vector_axis(nest)
    places: dict[Buffer, list[Index]] = {}
    for x in loads(nest):
        buffer, index = x.attr
        if x.operands:
            return None
        if index.factor(vector) != 0:
            places.setdefault(buffer, []).append(index)
    widest = max(places.values(), key=len, default=[])
    if vector is None or len(widest) < FEWEST_LOADS:
        return None
    best, least = None, MOST_LEFT
    for axis in nest.axes:
        count = next((c for c in COUNTS if estimate(axis.size) % c == 0), 1)
        if axis is vector or axis.size == 1 or count == 1:
            continue
        left = sum(_distinct(each, axis, count) for each in places.values())
        part = left / (count * sum(map(len, places.values())))
        if part < least:
            best, least = (axis, count), part
    return best


def _distinct(places: Sequence[Index], axis: Axis, count: int) -> int:
    """Return how many different elements some indices of an axis read."""
    steps = [Index(i * place.factor(axis)) + place for place in places for i in range(count)]
    return len(set(steps))
