"""Loop-invariant code motion: what does not change in a loop is computed before it.

Expensive invariants are hoisted, with all that they need: out of the body of a counted loop, and
out of the condition of a `while` loop, which runs at least once. What is hoisted out of the body of
a `while` loop may never be needed, and kernels may fail: kernels and costly nests are computed by
the first iteration, other nests before the loop. Nothing is hoisted out of an arm of a branch.

Transposes of operands that the iterations read along a summed axis are hoisted as well: transposed
once, before the loop, they let each iteration sum whole vectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set

from kiln.engines.native.loop_ir.buffers import (
    Touches,
    everything,
    nodes,
    reads,
    roots_of,
    writes,
)
from kiln.engines.native.loop_ir.checks import has_checks
from kiln.engines.native.loop_ir.extents import at_least, estimate, is_positive
from kiln.engines.native.loop_ir.scalars import Scope, Value, cost, postorder
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Branch,
    Buffer,
    Copy,
    Function,
    Index,
    Kernel,
    Loop,
    Nest,
    Place,
    Reduce,
    Role,
    Statement,
    Store,
    While,
    load,
    walk,
)
from kiln.engines.native.loop_ir.substitution import substituted
from kiln.engines.native.passes.dead import is_pure
from kiln.engines.native.passes.fusion import CHEAP
from kiln.engines.native.passes.rebuilding import with_roots
from kiln.ir.sizes.size import Dim

FEWEST_TURNS = 8
"""Operands are not transposed for loops of fewer iterations."""
FEWEST_KEPT = 8
MOST_TURNED_BYTES = 1 << 21
MOST_WASTED = 1 << 16
"""Nests of at most this many operations are hoisted out of a loop that may not run."""


def hoist(function: Function) -> None:
    """Hoist loop-invariant statements out of loops."""
    if not any(each.blocks for each in function.body):
        return
    writers: Counter[Buffer] = Counter()
    for statement in walk(function.body):
        writers.update(set(writes(statement)))
    _hoist(function.body, writers, Touches(function), function.scope)


def _hoist(
    statements: list[Statement], writers: Counter[Buffer], touches: Touches, scope: Scope
) -> None:
    found: list[Statement] = []
    for statement in statements:
        inner = statement.blocks
        for block in inner:
            _hoist(block, writers, touches, scope)
        if inner:
            # Hoisted statements stay inside the enclosing loops, which access the same buffers.
            _, written = touches.note(statement)
        if isinstance(statement, Loop):
            runs = is_positive(statement.axis.size)
            found += _invariant(statement.body, statement.axis, written, writers, runs=runs)
        elif isinstance(statement, While):
            found += _invariant(statement.condition, None, written, writers, runs=True)
            taken = _invariant(statement.body, None, written, writers, runs=False)
            found += _once(statement, taken, writers, scope) if _is_costly(taken) else taken
        found.append(statement)
    statements[:] = found


def _invariant(
    body: list[Statement],
    axis: Axis | None,
    written: Set[Buffer],
    writers: Counter[Buffer],
    *,
    runs: bool,
) -> list[Statement]:
    """Remove expensive invariant statements from a block of a loop and return them.

    `written` are the buffers that the loop writes; `runs` tells whether the block certainly runs.
    """
    changing = set(written)
    constant: dict[Statement, None] = {}
    makers: dict[Buffer, list[Statement]] = {}
    for statement in body:
        made = set(writes(statement))
        if (
            _may_move(statement, axis, runs=runs)
            and changing.isdisjoint(reads(statement))
            and all(
                b.role is Role.TEMP and (writers[b] == 1 or (len(made) == 1 and b in changing))
                for b in made
            )
        ):
            constant[statement] = None
            for b in made:
                parts = makers.setdefault(b, [])
                parts.append(statement)
                if len(parts) == writers[b] and _is_unread(b, body, parts):
                    changing.discard(b)
    constant = {x: None for x in constant if changing.isdisjoint(writes(x))}
    # A kernel reads from memory, wherever its operand is computed.
    stored = {x.buffer for each in body if isinstance(each, Kernel) for x in each.operands}
    taken: set[Statement] = set()
    waiting = [each for each in constant if _is_dear(each) or stored & set(writes(each))]
    while waiting:
        statement = waiting.pop()
        if statement not in taken:
            taken.add(statement)
            for b in (*reads(statement), *writes(statement)):
                waiting += makers.get(b, ())
    body[:] = [each for each in body if each not in taken]
    return [each for each in constant if each in taken]


def _is_unread(buffer: Buffer, body: Sequence[Statement], parts: Sequence[Statement]) -> bool:
    """Tell whether nothing reads a buffer before the last of the statements that write it."""
    if len(parts) == 1:
        return True
    first, last = body.index(parts[0]), body.index(parts[-1])
    return all(buffer not in everything(each)[0] for each in body[first:last])


def _may_move(statement: Statement, axis: Axis | None, *, runs: bool) -> bool:
    """Tell whether a statement has no effect but its results, and does not use the loop's axis."""
    if not is_pure(statement):
        return False
    # Its checks must not fail if the block does not run at all.
    if not runs and has_checks([statement]):
        return False
    return axis is None or all(index.factor(axis) == 0 for index in _indices(statement))


def _indices(statement: Statement) -> Iterator[Index]:
    """Iterate over all indices of a statement without blocks."""
    values: Sequence[Value] = ()
    match statement:
        case Nest():
            yield from [effect.index for effect in statement.effects]
            values = nodes(statement)
        case Kernel():
            places = [x.index for x in (*statement.operands, *statement.results)]
            yield from places
            values = postorder([x for index in places for x in index.operands])
        case Copy():
            places = [statement.operand.index, statement.result.index]
            yield from places
            values = postorder([x for index in places for x in index.operands])
    for x in values:
        if x.op in ("load", "index"):
            yield x.attr[1] if x.op == "load" else x.attr


def _is_costly(statements: Sequence[Statement]) -> bool:
    """Tell whether statements are not worth computing for a loop that may not run."""
    return any(isinstance(each, Kernel) or _work(each) > MOST_WASTED for each in statements)


def _work(statement: Statement) -> int:
    """Return roughly how many operations a nest or a copy is."""
    if isinstance(statement, Nest):
        return estimate(statement.points) * (1 + sum(map(cost, nodes(statement))))
    return estimate(statement.count) if isinstance(statement, Copy) else 0


def _once(
    loop: While, taken: Sequence[Statement], writers: Counter[Buffer], scope: Scope
) -> list[Statement]:
    """Let the first iteration of a loop run statements; return what precedes the loop."""
    done = Buffer("done", "i32", 1, Role.TEMP)
    writers[done] = 2

    def write(number: int) -> Nest:
        return Nest((), [Store(done, Index(), scope.constant(number, "i32"))], source=loop.source)

    loop.body.insert(0, Branch(Place(done), [[*taken, write(1)], []], loop.source))
    return [write(0)]


def _is_dear(statement: Statement) -> bool:
    if not isinstance(statement, Nest):
        return True
    return not statement.is_map or sum(map(cost, nodes(statement))) > 2 * CHEAP


# Operands of sums.


def transpose_summed(function: Function) -> None:
    """Transpose operands that loops sum along strided elements, once before each loop."""
    insert_before_loops(function, _turned)


def insert_before_loops(
    function: Function, make: Callable[[Loop, Set[Buffer]], list[Statement]]
) -> None:
    """Insert what `make` returns for a loop and the buffers that it writes before each long loop.

    `make` lets the loop read what these statements compute.
    """
    if any(each.blocks for each in function.body):
        _insert(function.body, make, Touches(function))


def _insert(
    statements: list[Statement],
    make: Callable[[Loop, Set[Buffer]], list[Statement]],
    touches: Touches,
) -> None:
    found: list[Statement] = []
    for statement in statements:
        inner = statement.blocks
        for block in inner:
            _insert(block, make, touches)
        if inner:
            _, written = touches.note(statement)
        if isinstance(statement, Loop) and estimate(statement.axis.size) >= FEWEST_TURNS:
            found += make(statement, written)
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
