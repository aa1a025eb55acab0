"""A nest that reads several buffers written in pieces is divided into cells.

The gradient of a function of slices is a sum of padded arrays: each is written in pieces, by a nest
of zeros and by one for what is inside. The nest that adds them is divided where any of them begins
or ends. In a cell each operand is of one piece, so that what was stored there is computed there,
and the buffers are not materialized. Cells of the same shape are one nest.

A reader of a single such buffer is computed where its pieces are (`producers.py`).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.loop_ir.buffers import everything, nodes, reads, writes
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.scalars import Value, cost, postorder
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Buffer,
    Function,
    Index,
    Nest,
    Statement,
    Store,
)
from kiln.engines.native.loop_ir.substitution import solved, substituted
from kiln.engines.native.passes.dead import drop_unread
from kiln.engines.native.passes.fusion import MOST_NODES
from kiln.engines.native.passes.pieces.producers import FEWEST_BYTES, written_in_pieces

MOST_CELLS = 27
"""Three along each of three axes: before, inside and after."""
MOST_REPEATED = 8
"""A more expensive value is not computed for several operands, or stored besides."""

Interval = tuple[int, int]
"""The first number of an axis, and the one after the last."""


class Piece(NamedTuple):
    """What one store writes of a buffer, as intervals of the reader's axes."""

    store: Store
    box: tuple[Interval, ...]

    def holds(self, cell: Sequence[Interval]) -> bool:
        """Tell whether the piece covers a cell."""
        return all(a[0] <= b[0] and b[1] <= a[1] for a, b in zip(self.box, cell, strict=True))


def compute_in_cells(function: Function) -> None:
    """Divide the nests that read several buffers of several pieces."""
    found, writers = written_in_pieces(function)
    split = {b for b in found if not is_named(b.size)}
    if len(split) > 1 and _rewrite(function.body, split, writers):
        drop_unread(function)


def _rewrite(statements: list[Statement], split: set[Buffer], writers: Counter[Buffer]) -> bool:
    found = False
    for statement in statements:
        for block in statement.blocks:
            found |= _rewrite(block, split, writers)
    for reader in list(statements):
        if isinstance(reader, Nest) and len(split.intersection(reads(reader))) > 1:
            cells = _cells(statements, reader, split, writers)
            if cells:
                at = statements.index(reader)
                statements[at : at + 1] = cells
                found = True
    return found


def _cells(
    statements: Sequence[Statement], reader: Nest, split: set[Buffer], writers: Counter[Buffer]
) -> list[Nest]:
    """Return the cells of a reader; none if it is not to be divided."""
    if not _is_divisible(reader):
        return []
    before = statements[: statements.index(reader)]
    pieces: dict[Value, list[Piece]] = {}
    for x in nodes(reader):
        if x.op == "load" and x.attr[0] in split:
            found = _pieces(before, reader, x, writers[x.attr[0]])
            if found:
                pieces[x] = found
    repeated = Counter([x.attr[0] for x in pieces])
    for x in list(pieces):
        if repeated[x.attr[0]] > 1 and any(_cost(p.store) > MOST_REPEATED for p in pieces[x]):
            del pieces[x]
    if len({x.attr[0] for x in pieces}) < 2:
        return []
    divided = [_divided(axis, d, pieces) for d, axis in enumerate(reader.axes)]
    if not 1 < math.prod(map(len, divided)) <= MOST_CELLS:
        return []
    return _divide(reader, list(itertools.product(*divided)), pieces)


def _is_divisible(reader: Nest) -> bool:
    """Tell whether any part of a nest may be computed alone, and is large enough to be."""
    if reader.ordered or not reader.is_map or is_named(*[axis.size for axis in reader.axes]):
        return False
    stores = [e for e in reader.effects if isinstance(e, Store)]
    return (
        all(e.mask is None and not e.index.operands for e in stores)
        and set(writes(reader)).isdisjoint(reads(reader))
        and any(int(e.buffer.nbytes) >= FEWEST_BYTES for e in stores)
    )


def _pieces(before: Sequence[Statement], reader: Nest, x: Value, count: int) -> list[Piece] | None:
    """Return the pieces of what a reader loads, in the order in which they are written.

    None if one is written by something else than a nest over a box, or if what it is computed from
    has changed when it is read.
    """
    buffer = x.attr[0]
    places = [i for i, each in enumerate(before) if buffer in set(writes(each))]
    if x.operands or len(places) != count:
        return None
    found: list[Piece] = []
    for i in places:
        nest = before[i]
        if not isinstance(nest, Nest) or nest.ordered:
            return None
        for store in [e for e in nest.effects if e.buffer is buffer]:
            if not isinstance(store, Store) or store.mask is not None or store.index.operands:
                return None
            if len(nest.effects) > 1 and _cost(store) > MOST_REPEATED:
                return None
            box = _box(reader, x.attr[1], nest, store.index)
            taken = {y.attr[0] for y in store.loads}
            changed = any(taken & everything(each)[1] for each in before[i:])
            if box is None or changed or taken & set(writes(reader)):
                return None
            found.append(Piece(store, box))
    return found


def _cost(store: Store) -> int:
    return sum(map(cost, store.nodes))


def _box(reader: Nest, read: Index, nest: Nest, stored: Index) -> tuple[Interval, ...] | None:
    """Return at which points a reader reads what a nest stores."""
    widths = {factor: axis.size for axis, factor in stored.axes() if axis.size != 1}
    if len({axis for axis, _ in stored.axes()} | {a for a in nest.axes if a.size == 1}) != len(
        nest.axes
    ) or is_named(stored.const, read.const, *widths, *widths.values()):
        return None
    rest = int(stored.const) - int(read.const)
    found: dict[Axis, Interval] = {}
    for axis, factor in sorted(read.axes(), key=lambda term: -int(term[1])):
        if factor <= 0 or rest < 0 or axis not in reader.axes:
            return None
        first, rest = divmod(rest, int(factor))
        found[axis] = (first, first + int(widths.pop(factor, 1)))
        if found[axis][1] > axis.size:
            return None
    if rest != 0 or widths:
        return None
    return tuple(found.get(axis, (0, int(axis.size))) for axis in reader.axes)


def _divided(axis: Axis, d: int, pieces: dict[Value, list[Piece]]) -> list[Interval]:
    """Return the intervals of an axis in which no piece begins or ends."""
    ends = {0, int(axis.size)}
    for piece in itertools.chain(*pieces.values()):
        ends.update(piece.box[d])
    return list(itertools.pairwise(sorted(ends)))


def _divide(
    reader: Nest, cells: Sequence[tuple[Interval, ...]], pieces: dict[Value, list[Piece]]
) -> list[Nest]:
    """Return a nest for each shape of the cells; none if they are too large."""
    known: dict[tuple[Axis, int], Axis] = {}
    found: dict[tuple[Axis, ...], Nest] = {}
    for cell in cells:
        axes: list[Axis] = []
        at: dict[Axis, Index] = {}
        for axis, (low, high) in zip(reader.axes, cell, strict=True):
            width = high - low
            if width == axis.size:
                axes.append(axis)
            elif width == 1:
                at[axis] = Index(low)
            else:
                axes.append(known.setdefault((axis, width), Axis(axis.name, width)))
                at[axis] = Index(low, ((axes[-1], 1),))
        values: dict[Value, Value] = {}
        for x, choices in pieces.items():
            last = next((p for p in reversed(choices) if p.holds(cell)), None)
            place = None if last is None else solved(last.store.index, x.attr[1].replaced(at, {}))
            if last is None or place is None:
                return []
            values[x] = substituted([last.store.value], place, {})[0] if place else last.store.value
        roots = substituted([e.value for e in reader.effects], at, values)
        stores = [
            Store(e.buffer, e.index.replaced(at, {}), value)
            for e, value in zip(reader.effects, roots, strict=True)
        ]
        made = found.get(tuple(axes))
        if made is None:
            made = found[tuple(axes)] = Nest(axes, [], source=reader.source, lines=reader.lines)
        made.effects.extend(stores)
        if len(postorder([e.value for e in made.effects])) > MOST_NODES:
            return []
    return list(found.values())
