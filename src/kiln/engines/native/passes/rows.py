"""Row programs: nests that follow each other over the same outer axis run row by row.

What one of them computes for a row is still in the cache when the next reads it, and a temporary
that none but they touch needs the room of one row only: it lies on the stack of the thread.
"""

from __future__ import annotations

from collections.abc import Iterator

from kiln.engines.native.loop_ir import (
    Axis,
    Buffer,
    Function,
    Index,
    Loop,
    Nest,
    Role,
    Statement,
    While,
    blocks,
)
from kiln.engines.native.passes.buffers import everything, nodes
from kiln.engines.native.passes.rebuilding import with_places
from kiln.engines.native.passes.substitution import bounds

MOST_ROW_BYTES = 1 << 15
"""A longer row is not kept on the stack."""
FEWEST_IN_TURN = 1 << 15
"""What a turn of a loop computes stays in the cache anyway if it is no more points than this."""


def by_rows(function: Function) -> None:
    """Group the nests of each block that share an outer axis."""
    _grouped(function.body, set(function.outputs), function, 0)


def _grouped(
    statements: list[Statement], outputs: set[Buffer], function: Function, fewest: int
) -> None:
    for statement in statements:
        inner = FEWEST_IN_TURN if isinstance(statement, (Loop, While)) else fewest
        for block in blocks(statement):
            _grouped(block, outputs, function, inner)
    found: list[Statement] = []
    group: list[Nest] = []

    def close() -> None:
        if len(group) > 1 and sum(nest.points for nest in group) >= fewest:
            found.append(Loop(group[0].axes[0], list(group), parallel=True, source=group[0].source))
        else:
            found.extend(group)
        group.clear()

    for statement in statements:
        if not isinstance(statement, Nest) or not _may_lead(statement):
            close()
            found.append(statement)
            continue
        if group and not _follows(group, statement):
            close()
        group.append(statement)
    close()
    statements[:] = found
    for statement in statements:
        if isinstance(statement, Loop) and statement.parallel:
            _contract(statement, outputs, function)


def _may_lead(nest: Nest) -> bool:
    """Tell whether the outermost axis of a nest can be a loop around it."""
    return (
        not nest.ordered
        and len([axis for axis in nest.axes if axis.size != 1]) > 1
        and nest.axes[0].size != 1
        and nest.axes[0] not in nest.reduced_axes()
    )


def accesses(nest: Nest) -> Iterator[tuple[Buffer, Index, bool]]:
    """Iterate over what a nest reads, and what it writes (true)."""
    for x in nodes(nest):
        if x.op == "load":
            yield (*x.attr, False)
    for effect in nest.effects:
        yield effect.buffer, effect.index, True


def _follows(group: list[Nest], nest: Nest) -> bool:
    """Tell whether a nest runs over the same rows, and touches only what its own row has."""
    axis = group[0].axes[0]
    if nest.axes[0] is not axis:
        return False
    rows: dict[Buffer, list[tuple[Index, bool]]] = {}
    for each in (*group, nest):
        for buffer, index, written in accesses(each):
            rows.setdefault(buffer, []).append((index, written))
    shares = False
    mine = {buffer for buffer, _, _ in accesses(nest)}
    for buffer, places in rows.items():
        if not any(written for _, written in places):
            shares |= buffer in mine and buffer.role is not Role.CONST and len(places) > 1
            continue
        if len(places) > 1 and buffer in mine:
            if _stride(places, axis) is None:
                return False
            shares = True
    return shares


def _stride(places: list[tuple[Index, bool]], axis: Axis) -> int | None:
    """Return how far rows lie apart, if all accesses are within their own row."""
    stride = places[0][0].factor(axis)
    if stride <= 0:
        return None
    for index, _ in places:
        if index.factor(axis) != stride:
            return None
        low, high = bounds(Index(index.const, [(t, f) for t, f in index.terms if t is not axis]))
        if low is None or high is None or low < 0 or high >= stride:
            return None
    return stride


def _contract(loop: Loop, outputs: set[Buffer], function: Function) -> None:
    """Give temporaries that only this loop touches the room of a row."""
    elsewhere: set[Buffer] = set(outputs)
    for statement in function.body:
        elsewhere |= _outside(statement, loop)
    nests = [each for each in loop.body if isinstance(each, Nest)]
    rows: dict[Buffer, list[tuple[Index, bool]]] = {}
    for nest in nests:
        for buffer, index, written in accesses(nest):
            if buffer.role is Role.TEMP and buffer not in elsewhere:
                rows.setdefault(buffer, []).append((index, written))
    made: dict[Buffer, Buffer] = {}
    for buffer, places in rows.items():
        stride = _stride(places, loop.axis)
        if stride is None:
            continue
        row = Buffer(buffer.name, buffer.dtype, stride, Role.ROW)
        if row.nbytes <= MOST_ROW_BYTES:
            made[buffer] = row

    def move(buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
        row = made.get(buffer)
        return (buffer, index) if row is None else (row, without(index, loop.axis))

    loop.body[:] = [with_places(nest, nest.axes[1:], move) for nest in nests]


def _outside(statement: Statement, loop: Loop) -> set[Buffer]:
    """Return the buffers that a statement touches outside a loop."""
    if statement is loop:
        return set()
    inner = blocks(statement)
    if not inner:
        read, written = everything(statement)
        return read | written
    found: set[Buffer] = set()
    if not any(each is loop for block in inner for each in _all(block)):
        read, written = everything(statement)
        return read | written
    for block in inner:
        for each in block:
            found |= _outside(each, loop)
    return found


def _all(block: list[Statement]) -> Iterator[Statement]:
    for each in block:
        yield each
        for inner in blocks(each):
            yield from _all(inner)


def without(index: Index, axis: Axis) -> Index:
    """Return an index without its term in an axis."""
    return Index(index.const, [(t, f) for t, f in index.terms if t is not axis])
