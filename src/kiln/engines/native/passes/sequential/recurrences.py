"""Elements that an iteration reads soon after they were written stay in registers.

A loop over one nest without axes that stores `x[t]` and loads `x[t - d]` carries the last elements
in cells instead: each iteration would wait until its predecessor's store reaches a load. The
elements are stored as before, so whatever else loads them finds them in memory.

The least and the greatest of two floats take the operand that waits for the iteration before as
their second one: the code of LLVM looks at the sign of the first one, by way of a general register.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kiln.engines.native.loop_ir.buffers import nodes, roots_of
from kiln.engines.native.loop_ir.scalars import Value, is_float
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
)
from kiln.engines.native.loop_ir.substitution import moved, substituted
from kiln.engines.native.passes.rebuilding import with_roots

MOST_BACK = 4
"""Elements of so many iterations ago are carried at most: each is a move per iteration."""


def carry_elements(function: Function) -> None:
    """Carry the elements that sequential loops store, and load shortly after, in cells."""
    _in_block(function.body, itertools.count())


def _in_block(statements: list[Statement], numbers: Iterator[int]) -> None:
    kept: list[Statement] = []
    for statement in statements:
        # Threads would share the cells.
        if not (isinstance(statement, Loop) and statement.parallel):
            for block in statement.blocks:
                _in_block(block, numbers)
            if isinstance(statement, Loop) and len(statement.body) == 1:
                (nest,) = statement.body
                if isinstance(nest, Nest) and not nest.axes:
                    before, nest = _carried(nest, statement.axis, numbers)
                    kept += before
                    statement.body[:] = [_waiting_last(nest)]
        kept.append(statement)
    statements[:] = kept


def _carried(nest: Nest, axis: Axis, numbers: Iterator[int]) -> tuple[list[Nest], Nest]:
    """Return a nest that carries elements in cells, and the one that sets these before its loop."""
    before: list[Store] = []
    carried: dict[Value, Value] = {}
    moves: list[tuple[int, list[Buffer]]] = []
    for place, found in _recurrences(axis, nest):
        store = nest.effects[place]
        scope, buffer = store.value.scope, store.buffer
        cells = [
            Buffer(f"{buffer.name}b{next(numbers)}", buffer.dtype, 1, Role.TEMP)
            for _ in range(max(found.values()))
        ]
        for back, cell in enumerate(cells, 1):
            index = store.index.replaced({axis: Index(-back)}, {})
            before.append(Store(cell, Index(), load(scope, buffer, index)))
        carried |= {x: load(scope, cells[back - 1], Index()) for x, back in found.items()}
        moves.append((place, cells))
    if not carried:
        return [], nest
    made = with_roots(nest, substituted(roots_of(nest), {}, carried))
    for place, cells in moves:
        value = made.effects[place].value
        for cell in cells:
            made.effects.append(Store(cell, Index(), value))
            value = load(value.scope, cell, Index())
    return [Nest((), before, source=nest.source)], made


def _waiting_last(nest: Nest) -> Nest:
    """Let what the iteration before computed be the second operand, where operands commute."""
    carried = {(e.buffer, e.index) for e in nest.effects if not e.index.terms}
    waiting: set[Value] = set()
    found: dict[Value, Value] = {}
    for x in nodes(nest):
        waits = [y in waiting for y in x.operands]
        if any(waits) or (x.op == "load" and x.attr in carried):
            waiting.add(x)
        if x.op in ("min", "max") and is_float(x.dtype) and waits == [True, False]:
            first, second = x.operands
            found[x] = x.scope.op(x.op, x.dtype, found[second], found[first])
        else:
            found[x] = moved(x, {}, found)
    return with_roots(nest, [found[root] for root in roots_of(nest)])


def _recurrences(axis: Axis, nest: Nest) -> Iterator[tuple[int, dict[Value, int]]]:
    """Iterate over the stores, by number, whose elements are loaded again, and those loads.

    Each load is given with the number of iterations since its element was stored.
    """
    loads = [x for x in nodes(nest) if x.op == "load"]
    for place, effect in enumerate(nest.effects):
        if not _is_alone(effect, nest, axis):
            continue
        found: dict[Value, int] = {}
        for x in loads:
            if x.attr[0] is effect.buffer:
                back = _iterations_between(x.attr[1], effect.index, axis)
                if back is not None and 1 <= back <= MOST_BACK:
                    found[x] = back
        # What is loaded before the loop must be what its first iterations load.
        if found and isinstance(axis.size, int) and axis.size >= max(found.values()):
            yield place, found


def _is_alone(effect: Store | Reduce, nest: Nest, axis: Axis) -> bool:
    """Tell whether an element is stored by each iteration, and by no other effect."""
    if (
        not isinstance(effect, Store)
        or effect.mask is not None
        or effect.buffer.role not in (Role.TEMP, Role.OUTPUT)
    ):
        return False
    step = effect.index.factor(axis)
    if not isinstance(step, int) or step == 0 or effect.index.operands:
        return False
    for other in nest.effects:
        if other is not effect and other.buffer is effect.buffer:
            apart = effect.index + other.index * -1
            if apart.terms or not isinstance(apart.const, int) or apart.const % step == 0:
                return False
    return True


def _iterations_between(read: Index, stored: Index, axis: Axis) -> int | None:
    """Return how many iterations ago an element was stored; None if that is not certain."""
    apart, step = stored + read * -1, stored.factor(axis)
    if apart.terms or not isinstance(apart.const, int) or apart.const % step:
        return None
    return apart.const // step
