"""Loop-invariant code motion: what does not change in a loop is computed before it.

Expensive invariants are hoisted, with everything that they need. So are transposes of operands that
the iterations read along a summed axis: transposed once, before the loop, they let each iteration
sum whole vectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from kiln.engines.native.loop_ir.buffers import Touches, nodes, reads, roots_of, writes
from kiln.engines.native.loop_ir.checks import has_checks
from kiln.engines.native.loop_ir.extents import at_least, estimate, is_positive
from kiln.engines.native.loop_ir.scalars import Value, cost
from kiln.engines.native.loop_ir.statements import (
    EFFECTS,
    Axis,
    Buffer,
    Function,
    Index,
    Kernel,
    Loop,
    Nest,
    Reduce,
    Role,
    Statement,
    Store,
    While,
    blocks,
    load,
    walk,
)
from kiln.engines.native.loop_ir.substitution import substituted
from kiln.engines.native.passes.fusion import CHEAP
from kiln.engines.native.passes.rebuilding import with_roots
from kiln.ir.sizes.size import Dim

FEWEST_TURNS = 8
"""Operands are not transposed for loops of fewer iterations."""
FEWEST_KEPT = 8
MOST_TURNED_BYTES = 1 << 21


def hoist(function: Function) -> None:
    """Hoist loop-invariant statements out of loops."""
    if not any(map(blocks, function.body)):
        return
    writers: Counter[Buffer] = Counter()
    for statement in walk(function.body):
        writers.update(set(writes(statement)))
    _hoist(function.body, writers, Touches(function))


def _hoist(
    statements: list[Statement],
    writers: Counter[Buffer],
    touches: Touches,
) -> None:
    found: list[Statement] = []
    for statement in statements:
        inner = blocks(statement)
        for block in inner:
            _hoist(block, writers, touches)
        if inner:
            # Hoisted statements stay inside the enclosing loops, which access the same buffers.
            _, written = touches.note(statement)
        if isinstance(statement, (Loop, While)):
            found += _invariant(statement, writers, written)
        found.append(statement)
    statements[:] = found


def _invariant(
    loop: Loop | While, writers: Counter[Buffer], written: Set[Buffer]
) -> list[Statement]:
    """Remove expensive invariant statements from a loop's body and return them.

    `written` are the buffers that the loop writes.
    """
    changing = set(written)
    constant: dict[Statement, None] = {}
    makers: dict[Buffer, Statement] = {}
    for statement in loop.body:
        made = set(writes(statement))
        if (
            _may_move(statement, loop)
            and not (set(reads(statement)) & changing)
            and all(writers[b] == 1 and b.role is Role.TEMP for b in made)
        ):
            constant[statement] = None
            changing -= made
            makers.update((b, statement) for b in made)
    # A kernel reads from memory, wherever its operand is computed.
    stored = {x.buffer for each in loop.body if isinstance(each, Kernel) for x in each.operands}
    taken: set[Statement] = set()
    waiting = [each for each in constant if _is_dear(each) or stored & set(writes(each))]
    while waiting:
        statement = waiting.pop()
        if statement not in taken:
            taken.add(statement)
            waiting += [makers[b] for b in reads(statement) if b in makers]
    loop.body[:] = [each for each in loop.body if each not in taken]
    return [each for each in constant if each in taken]


def _may_move(statement: Statement, loop: Loop | While) -> bool:
    """Tell whether a statement has no effect but its results, and does not use the loop's axis."""
    axis = loop.axis if isinstance(loop, Loop) else None
    match statement:
        case Nest():
            indices = [
                x.attr[1] if x.op == "load" else x.attr
                for x in nodes(statement)
                if x.op in ("load", "index")
            ]
            indices += [effect.index for effect in statement.effects]
            if axis is not None and any(index.factor(axis) != 0 for index in indices):
                return False
            # Its checks must not fail if the loop does not run at all.
            runs = axis is not None and is_positive(axis.size)
            return runs or not has_checks([statement])
        case Kernel():
            # A loop whose condition is false at first does not run at all.
            places = [*statement.operands, *statement.results]
            return (
                axis is not None
                and statement.symbol not in EFFECTS
                and all(place.index.factor(axis) == 0 for place in places)
            )
    return False


def _is_dear(statement: Statement) -> bool:
    if not isinstance(statement, Nest):
        return True
    return not statement.is_map or sum(map(cost, nodes(statement))) > 2 * CHEAP


# Operands of sums.


def transpose_summed(function: Function) -> None:
    """Transpose operands that loops sum along strided elements, once before each loop."""
    if any(map(blocks, function.body)):
        _turn(function.body, Touches(function))


def _turn(statements: list[Statement], touches: Touches) -> None:
    found: list[Statement] = []
    for statement in statements:
        inner = blocks(statement)
        for block in inner:
            _turn(block, touches)
        if inner:
            _, written = touches.note(statement)
        if isinstance(statement, Loop) and estimate(statement.axis.size) >= FEWEST_TURNS:
            found += _turned(statement, written)
        found.append(statement)
    statements[:] = found


def _turned(loop: Loop, changing: Set[Buffer]) -> list[Statement]:
    """Let a loop that writes some buffers read transposed operands; return the transposes."""
    made: list[Statement] = []
    known: dict[tuple[Buffer, Index, Axis], Value] = {}
    for i, statement in enumerate(loop.body):
        axis = _vector(statement, changing) if isinstance(statement, Nest) else None
        if axis is None or not isinstance(statement, Nest):
            continue
        replaced: dict[Value, Value] = {}
        for x in nodes(statement):
            if x.op == "load" and _is_across(x.attr[1].factor(axis)):
                key = (*x.attr, axis)
                if key not in known:
                    known[key], nest = _copied(x, axis, statement)
                    made.append(nest)
                replaced[x] = known[key]
        loop.body[i] = with_roots(statement, substituted(roots_of(statement), {}, replaced))
    return made


def _vector(nest: Nest, changing: Set[Buffer]) -> Axis | None:
    """Return the axis, not summed over, that should be innermost in transposed operands, if any."""
    reduced = nest.reduced_axes()
    if nest.ordered or len(reduced) != 1 or not all(isinstance(e, Reduce) for e in nest.effects):
        return None
    loads = [x for x in nodes(nest) if x.op == "load"]
    own = set(nest.axes)
    for axis in nest.axes:
        if estimate(axis.size) < FEWEST_KEPT or axis in reduced:
            continue
        across = [x for x in loads if x.attr[1].factor(axis) not in (0, 1)]
        if (
            across
            and all(e.index.factor(axis) == 1 for e in nest.effects)
            and all(
                not x.operands
                and x.attr[0] not in changing
                and at_least(MOST_TURNED_BYTES, x.attr[0].nbytes)
                and x.attr[1].factor(reduced[0]) == 1
                and all(a in own and is_positive(f) for a, f in x.attr[1].axes())
                for x in across
            )
        ):
            return axis
    return None


def _is_across(factor: Dim) -> bool:
    return factor != 1 and is_positive(factor)


def _copied(x: Value, last: Axis, nest: Nest) -> tuple[Value, Nest]:
    """Return a load of a transposed operand, and the nest that transposes it."""
    buffer, index = x.attr
    axes = [a for a, _ in index.axes() if a is not last] + [last]
    terms, step = [], 1
    for axis in reversed(axes):
        terms.append((axis, step))
        step *= axis.size
    transposed = Buffer(f"{buffer.name}t", buffer.dtype, step, Role.TEMP)
    place = Index(0, terms)
    return (
        load(x.scope, transposed, place),
        Nest(axes, [Store(transposed, place, x)], source=nest.source),
    )
