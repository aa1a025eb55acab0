"""Loops whose iterations do not need each other become nests, which run in vectors and threads.

A loop over one nest is that nest over one axis more if no iteration touches what another one
writes. A loop that combines a number of each iteration with an integer in a cell is a reduction:
integers are combined in any order; floats are not, since their sums would have other bits.
"""

from __future__ import annotations

import itertools
import math

from kiln.engines.native.loop_ir.buffers import nodes
from kiln.engines.native.loop_ir.checks import has_checks
from kiln.engines.native.loop_ir.scalars import Value, is_float, postorder
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Buffer,
    Function,
    Index,
    Loop,
    Nest,
    Reduce,
    Role,
    Statement,
    Store,
    load,
    walk,
)
from kiln.engines.native.loop_ir.substitution import bounds

_COMBINED = ("add", "mul", "min", "max", "and", "or", "xor")


def run_at_once(function: Function) -> None:
    """Replace loops whose iterations are independent by nests."""
    loops = any(isinstance(statement, Loop) for statement in walk(function.body))
    # Checks tell in which iteration something happened.
    if loops and not has_checks(function.body):
        _Joining().block(function.body)


class _Joining:
    def __init__(self) -> None:
        self._cells = itertools.count()

    def block(self, statements: list[Statement]) -> None:
        """Replace the loops of a block, inner ones first."""
        kept: list[Statement] = []
        for statement in statements:
            for block in statement.blocks:
                self.block(block)
            made = self._joined(statement) if isinstance(statement, Loop) else None
            kept += [statement] if made is None else made
        statements[:] = kept

    def _joined(self, loop: Loop) -> list[Statement] | None:
        """Return the statements that a loop is, if its iterations are independent."""
        if loop.parallel or len(loop.body) != 1 or not isinstance(loop.axis.size, int):
            return None
        (nest,) = loop.body
        if not isinstance(nest, Nest) or nest.ordered or loop.axis.size < 2:
            return None
        if _are_apart(nest, loop.axis):
            axes = (loop.axis, *nest.axes)
            made = Nest(axes, nest.effects, source=nest.source, lines=nest.lines)
            return [made]
        return self._reduced(nest, loop.axis)

    def _reduced(self, nest: Nest, axis: Axis) -> list[Statement] | None:
        """Return the reduction that combines the numbers of all iterations, and its use."""
        if len(nest.effects) != 1 or math.prod(a.size for a in nest.axes) != 1:
            return None
        (effect,) = nest.effects
        value = effect.value
        if (
            not isinstance(effect, Store)
            or effect.mask is not None
            or effect.index.terms
            or value.op not in _COMBINED
            or is_float(value.dtype)
            or value.dtype == "i1"
        ):
            return None
        before = load(value.scope, effect.buffer, effect.index)
        others = [x for x in value.operands if x is not before]
        if len(others) != 1 or _reads(others[0], effect.buffer):
            return None
        cell = Buffer(f"{axis.name}s{next(self._cells)}", value.dtype, 1, Role.TEMP)
        whole = load(value.scope, cell, Index())
        total = value.scope.op(value.op, value.dtype, before, whole)
        return [
            Nest(
                (axis,),
                [Reduce(cell, Index(), value.op, others[0])],
                source=nest.source,
                lines=nest.lines,
            ),
            Nest((), [Store(effect.buffer, effect.index, total)], source=nest.source),
        ]


def _reads(value: Value, buffer: Buffer) -> bool:
    return any(x.op == "load" and x.attr[0] is buffer for x in postorder([value]))


def _are_apart(nest: Nest, axis: Axis) -> bool:
    """Tell whether no iteration of a loop over a nest touches what another one writes.

    Not of one that reduces: over one axis more, floats would be added in another order.
    """
    if not nest.is_map:
        return False
    written: dict[Buffer, list[Index]] = {}
    for effect in nest.effects:
        written.setdefault(effect.buffer, []).append(effect.index)
    for buffer, indices in written.items():
        if not _are_steps(indices, axis):
            return False
        for x in nodes(nest):
            if x.op == "load" and x.attr[0] is buffer and x.attr[1] not in indices:
                return False
    return True


def _are_steps(indices: list[Index], axis: Axis) -> bool:
    """Tell whether an iteration writes less than the distance to where the next one does."""
    step = indices[0].factor(axis)
    if not isinstance(step, int) or step == 0 or any(i.factor(axis) != step for i in indices):
        return False
    lows, highs = [], []
    for index in indices:
        low, high = bounds(index + Index(0, ((axis, -step),)))
        if not isinstance(low, int) or not isinstance(high, int):
            return False
        lows.append(low)
        highs.append(high)
    return max(highs) - min(lows) < abs(step)
