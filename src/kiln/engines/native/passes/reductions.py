"""Splits long reductions, so that threads share them and elements are read in memory order.

The length of a part does not depend on the number of threads, so the result has the same bits with
any number. Two kinds of reductions are split, after axes are collapsed:

- one long axis to few results: each chunk of the axis gives a partial result, and these are
reduced;
- sums of rows: each chunk of rows is accumulated in one row that stays in the L1 cache.
"""

from __future__ import annotations

from kiln.engines.native.loop_ir.buffers import nodes
from kiln.engines.native.loop_ir.extents import estimate, is_named
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, Scope, Value
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
    axis_index,
    load,
)
from kiln.engines.native.loop_ir.substitution import substituted
from kiln.ir.sizes.size import Dim, product

CHUNK = 1 << 14
"""The points of a part of a long axis."""
ROWS = 64
"""The rows of a part; rows are added four at a time."""
FEWEST_ROWS = 16
MOST_ROW_BYTES = 1 << 15
LEAST_ROW_BYTES = 1 << 9
_PLAIN = frozenset(("add", "mul", "min", "max", "and", "or", "xor"))


def split_reductions(function: Function) -> None:
    """Split the long reductions of a function."""
    function.body[:] = _split(function.body, function.scope)


def _split(statements: list[Statement], scope: Scope) -> list[Statement]:
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Nest):
            found += _chunks(statement) or _rows(statement, scope) or [statement]
            continue
        for block in statement.blocks:
            # Inside row programs and loops there is little to gain, and rows are on the stack.
            if not isinstance(statement, Loop) or not statement.parallel:
                block[:] = _split(block, scope)
        found.append(statement)
    return found


def _reduces(nest: Nest) -> list[Reduce] | None:
    """Return the reductions of a nest that does nothing else; None for other nests."""
    found = [e for e in nest.effects if isinstance(e, Reduce)]
    if len(found) < len(nest.effects) or nest.ordered or any(e.op not in _PLAIN for e in found):
        return None
    return found


def _moved(nest: Nest, axes: dict[Axis, Index]) -> list[Value]:
    return substituted([e.value for e in nest.effects], axes, {})


# One long axis.


def _chunks(nest: Nest) -> list[Statement] | None:
    reduces = _reduces(nest)
    reduced = nest.reduced_axes()
    if not reduces or not reduced:
        return None
    kept = [axis for axis in nest.axes if axis not in reduced and axis.size != 1]
    results = product([axis.size for axis in kept])
    axis = reduced[0]
    inner = product([axis.size for axis in reduced[1:]])
    length = max(1, CHUNK // estimate(inner))
    count, rest = divmod(axis.size, length)
    if is_named(results) or results > 16 or not _is_long(axis.size, count):
        return None
    if all(index.factor(axis) == 0 for index in _indices(nest)):
        return None
    parts = Axis("part", count + _is_some(rest))
    partial = []
    for e in reduces:
        size = e.buffer.size * parts.size
        partial.append(Buffer(f"{e.buffer.name}_parts", e.value.dtype, size, Role.TEMP))

    def part(number: Index, size: Dim, outer: list[Axis]) -> Nest:
        along = Axis(axis.name, size)
        place = number * length + axis_index(along)
        values = _moved(nest, {axis: place})
        effects = [
            Reduce(buffer, e.index * parts.size + number, e.op, value)
            for e, buffer, value in zip(reduces, partial, values, strict=True)
        ]
        return Nest(
            [*outer, *kept, along, *reduced[1:]], effects, source=nest.source, lines=nest.lines
        )

    chunk = Axis("part", count)
    made: list[Statement] = [part(axis_index(chunk), length, [chunk])]
    if rest != 0:
        made.append(part(Index(count), rest, []))
    scope = reduces[0].value.scope
    last = [
        Reduce(e.buffer, e.index, e.op, load(scope, b, e.index * parts.size + axis_index(parts)))
        for e, b in zip(reduces, partial, strict=True)
    ]
    made.append(Nest([*kept, parts], last, source=nest.source, lines=nest.lines))
    return made


def _is_long(size: Dim, parts: Dim) -> bool:
    """Tell whether an axis may have several parts."""
    return is_named(size) or estimate(parts) >= 2


def _is_some(rest: Dim) -> int:
    """Return whether there is a remainder: for a named axis it may be empty."""
    return int(rest != 0)


def _indices(nest: Nest) -> list[Index]:
    return [
        x.attr[1] if x.op == "load" else x.attr for x in nodes(nest) if x.op in ("load", "index")
    ]


# Rows.


def _rows(nest: Nest, scope: Scope) -> list[Statement] | None:
    reduces = _reduces(nest)
    reduced = nest.reduced_axes()
    kept = [axis for axis in nest.axes if axis not in reduced and axis.size != 1]
    if not reduces or len(reduced) != 1 or len(kept) != 1:
        return None
    (rows,), (along,) = reduced, kept
    if any(e.index.factor(along) != 1 for e in reduces) or estimate(rows.size) < FEWEST_ROWS:
        return None
    indices = [x.attr[1] for x in nodes(nest) if x.op == "load"]
    if not any(i.factor(along) == 1 and i.factor(rows) not in (0, 1) for i in indices):
        return None
    if any(i.factor(rows) == 1 for i in indices):
        return None
    if is_named(along.size):
        # A row of unknown length does not fit on the stack.
        return None
    bytes_ = along.size * max(NUMPY_TYPES[e.value.dtype].itemsize for e in reduces)
    if not LEAST_ROW_BYTES <= bytes_ <= MOST_ROW_BYTES:
        return None
    count, rest = divmod(rows.size, ROWS)
    if not is_named(count) and (count == 0 or (count == 1 and rest == 0)):
        return [_sum_of_rows(nest, rows, along, Index(), int(rows.size), None, scope)]
    parts = count + _is_some(rest)
    partial = [
        Buffer(f"{e.buffer.name}_parts", e.value.dtype, along.size * parts, Role.TEMP)
        for e in reduces
    ]
    chunk = Axis("part", count)
    made: list[Statement] = [
        _sum_of_rows(nest, rows, along, axis_index(chunk) * ROWS, ROWS, (chunk, partial), scope)
    ]
    if is_named(rest):
        made.append(_rest_of_rows(nest, rows, along, count, rest, partial))
    elif rest:
        once, first = Axis("part", 1), Index(count * ROWS)
        end = (once, partial)
        made.append(_sum_of_rows(nest, rows, along, first, int(rest), end, scope, int(count)))
    total = Axis("part", parts)
    last = [
        Reduce(
            e.buffer,
            e.index,
            e.op,
            load(scope, b, axis_index(total) * along.size + axis_index(along)),
        )
        for e, b in zip(reduces, partial, strict=True)
    ]
    return [*made, Nest([along, total], last, source=nest.source, lines=nest.lines)]


def _rest_of_rows(
    nest: Nest, rows: Axis, along: Axis, count: Dim, rest: Dim, parts: list[Buffer]
) -> Nest:
    """Return the remainder nest, which adds the last rows to the last parts."""
    last = Axis(rows.name, rest)
    values = _moved(nest, {rows: axis_index(last) + count * ROWS})
    at = axis_index(along) + count * along.size
    effects = [
        Reduce(buffer, at, e.op, value)
        for e, buffer, value in zip(nest.effects, parts, values, strict=True)
        if isinstance(e, Reduce)
    ]
    return Nest([along, last], effects, source=nest.source)


def _sum_of_rows(
    nest: Nest,
    rows: Axis,
    along: Axis,
    first: Index,
    count: int,
    parts: tuple[Axis, list[Buffer]] | None,
    scope: Scope,
    number: int = 0,
) -> Loop:
    """Return a loop that accumulates rows from `first` on in parts or in the results."""
    reduces = [e for e in nest.effects if isinstance(e, Reduce)]
    part = parts[0] if parts else Axis("part", 1)
    row = [Buffer(f"{e.buffer.name}_row", e.value.dtype, along.size, Role.ROW) for e in reduces]
    here = axis_index(along)
    # The first rows are stored, the others are added, four at a time.
    head = count % 4 or 4
    body: list[Statement] = [
        Nest(
            [along],
            _added(nest, rows, first, head, row, scope, fresh=True),
            source=nest.source,
            lines=nest.lines,
        )
    ]
    iterations = (count - head) // 4
    if iterations:
        step = Axis("row", iterations)
        place = first + head + axis_index(step) * 4
        effects = _added(nest, rows, place, 4, row, scope, fresh=False)
        body.append(
            Loop(
                step,
                [Nest([along], effects, source=nest.source, lines=nest.lines)],
                source=nest.source,
            )
        )
    final = []
    for i, e in enumerate(reduces):
        value = load(scope, row[i], here)
        if parts is None:
            final.append(Store(e.buffer, e.index, value.convert(e.buffer.dtype)))
        else:
            at = (axis_index(part) + number) * along.size + here
            final.append(Store(parts[1][i], at, value))
    body.append(Nest([along], final, source=nest.source, lines=nest.lines))
    return Loop(part, body, parallel=True, source=nest.source)


def _added(
    nest: Nest,
    rows: Axis,
    first: Index,
    count: int,
    row: list[Buffer],
    scope: Scope,
    *,
    fresh: bool,
) -> list[Store]:
    values = [_moved(nest, {rows: first + i}) for i in range(count)]
    effects = []
    for i, e in enumerate(nest.effects):
        assert isinstance(e, Reduce)
        (along,) = [axis for axis in nest.axes if axis is not rows and axis.size != 1]
        here = axis_index(along)
        terms = [v[i] for v in values]
        while len(terms) > 1:
            pairs = [_both(e.op, *terms[j : j + 2]) for j in range(0, len(terms) - 1, 2)]
            terms = pairs + terms[len(pairs) * 2 :]
        total = terms[0] if fresh else _both(e.op, load(scope, row[i], here), terms[0])
        effects.append(Store(row[i], here, total))
    return effects


def _both(op: str, x: Value, y: Value) -> Value:
    return x.scope.op(op, x.dtype, x, y)
