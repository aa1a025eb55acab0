"""Transposed operands are materialized by a kernel before a nest reads them, contiguously.

A nest that reads one operand along another axis than it writes would access a cache line per
element; the kernel transposes tiles in registers.
"""

from __future__ import annotations

from collections import Counter

from kiln.engines.native.loop_ir.buffers import nodes, reads, roots_of
from kiln.engines.native.loop_ir.extents import estimate
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, Value
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Buffer,
    Function,
    Index,
    Kernel,
    Nest,
    Place,
    Role,
    Statement,
    Store,
    load,
)
from kiln.engines.native.loop_ir.substitution import substituted
from kiln.engines.native.passes.rebuilding import with_roots
from kiln.engines.native.passes.schedule import vector_axis

FEWEST_POINTS = 1 << 12
FEWEST_APART = 16
"""Elements this far apart share few or no cache lines."""


def transpose_operands(function: Function) -> None:
    """Materialize the transposed operands of all nests."""
    _turn(function.body)


def _turn(statements: list[Statement]) -> None:
    found: list[Statement] = []
    for statement in statements:
        for block in statement.blocks:
            _turn(block)
        if isinstance(statement, Nest):
            found += _turned(statement)
        else:
            found.append(statement)
    statements[:] = found


def _turned(nest: Nest) -> list[Statement]:
    vector = None if nest.ordered or estimate(nest.points) < FEWEST_POINTS else vector_axis(nest)
    if vector is None:
        return [nest]
    kernels: list[Statement] = []
    replaced: dict[Value, Value] = {}
    for x in nodes(nest):
        if x.op != "load" or x.operands or estimate(x.attr[1].factor(vector)) < FEWEST_APART:
            continue
        axes = _dense_axes(x)
        if axes is None:
            continue
        buffer, index = x.attr
        order = [axis for axis in nest.axes if index.factor(axis) != 0]
        made = Buffer(f"{buffer.name}_turned", buffer.dtype, buffer.size, Role.TEMP)
        place, step = Index(), 1
        for axis in reversed(order):
            place += Index(0, ((axis, step),))
            step *= axis.size
        target = _only_target(nest, x, place)
        numbers = [
            NUMPY_TYPES[buffer.dtype].itemsize.bit_length() - 1,
            len(axes),
            *[axis.size for axis in axes],
            *[axes.index(axis) for axis in order],
        ]
        if target is None and not replaced:
            made = _own_result(nest, buffer, place) or made
        to = target or made
        kernels.append(Kernel("kiln_transpose", [Place(buffer)], [Place(to)], numbers, nest.source))
        if target is not None:
            return kernels
        replaced[x] = load(x.scope, made, place)
    if not replaced:
        return [nest]
    return [*kernels, with_roots(nest, substituted(roots_of(nest), {}, replaced))]


def _dense_axes(x: Value) -> list[Axis] | None:
    """Return the axes of a load in memory order, if it reads a whole buffer."""
    buffer, index = x.attr
    if index.const != 0 or len(list(index.axes())) != len(index.terms):
        return None
    terms = sorted(index.axes(), key=lambda term: estimate(term[1]))
    step = 1
    for axis, factor in terms:
        if factor != step:
            return None
        step *= axis.size
    return [axis for axis, _ in reversed(terms)] if step == buffer.size else None


def _own_result(nest: Nest, operand: Buffer, place: Index) -> Buffer | None:
    """Return a buffer that the nest writes in the transposed operand's order, and never reads."""
    read = set(reads(nest))
    written = Counter(effect.buffer for effect in nest.effects)
    for effect in nest.effects:
        buffer = effect.buffer
        if (
            isinstance(effect, Store)
            and effect.mask is None
            and effect.index == place
            and written[buffer] == 1
            and buffer not in read
            and (buffer.dtype, buffer.size) == (operand.dtype, operand.size)
        ):
            return buffer
    return None


def _only_target(nest: Nest, x: Value, place: Index) -> Buffer | None:
    """Return the buffer that the nest copies a load to, if it does nothing else."""
    if len(nest.effects) != 1:
        return None
    (effect,) = nest.effects
    is_copy = isinstance(effect, Store) and effect.value is x and effect.mask is None
    if is_copy and effect.index == place and effect.buffer.size == x.attr[0].size:
        return effect.buffer
    return None
