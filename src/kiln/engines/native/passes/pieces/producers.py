"""The consumer of a buffer that is written in pieces is fused into the producer of each piece.

A concatenation or a padded array is written by several nests. If a single nest reads it
elementwise, each of them stores what the reader computes from its piece, and the buffer is not
materialized.
"""

from __future__ import annotations

from collections import Counter

from kiln.engines.native.loop_ir.buffers import everything, nodes, reads, writes
from kiln.engines.native.loop_ir.extents import estimate
from kiln.engines.native.loop_ir.scalars import Value, cost
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Buffer,
    Function,
    Index,
    Nest,
    Reduce,
    Role,
    Statement,
    Store,
    walk,
)
from kiln.engines.native.loop_ir.substitution import solved, substituted

MOST_PIECES = 8
MOST_NODES = 100
"""A larger reader is not duplicated for each piece."""
CHEAP = 8
"""A more expensive reader is not recomputed for pieces that are overwritten."""
FEWEST_BYTES = 1 << 14
"""Smaller buffers stay in the L1 cache."""


def compute_in_pieces(function: Function) -> None:
    """Fuse the readers of buffers of several pieces into the nests that write the pieces."""
    split, writers = written_in_pieces(function)
    found = {b for b in split if estimate(b.nbytes) >= FEWEST_BYTES}
    if found:
        _rewrite(function.body, found, writers)


def written_in_pieces(function: Function) -> tuple[set[Buffer], Counter[Buffer]]:
    """Return the temporaries that several statements write and one reads, and all writers."""
    writers: Counter[Buffer] = Counter()
    for statement in walk(function.body):
        for buffer in dict.fromkeys(writes(statement)):
            writers[buffer] += 1
    found = {b for b, count in writers.items() if 2 <= count <= MOST_PIECES and b.role is Role.TEMP}
    found.difference_update(function.outputs)
    if found:
        readers = Counter(b for x in walk(function.body) for b in dict.fromkeys(reads(x)))
        found = {b for b in found if readers[b] == 1}
    return found, writers


def _rewrite(statements: list[Statement], split: set[Buffer], writers: Counter[Buffer]) -> None:
    for statement in statements:
        for block in statement.blocks:
            _rewrite(block, split, writers)
    for reader in list(statements):
        if isinstance(reader, Nest) and reader.is_map and not reader.ordered:
            for x in nodes(reader):
                if x.op == "load" and x.attr[0] in split and _moved(statements, reader, x, writers):
                    break


def _moved(statements: list[Statement], reader: Nest, x: Value, writers: Counter[Buffer]) -> bool:
    """Compute a reader in the nests that write what it reads at `x`; tell whether that is done."""
    buffer = x.attr[0]
    end = statements.index(reader)
    pieces = [i for i, each in enumerate(statements[:end]) if buffer in set(writes(each))]
    if len(pieces) != writers[buffer] or not _is_elementwise(reader, x):
        return False
    made, taken = set(writes(reader)), set(reads(reader)) - {buffer}
    if made & taken or any(writers[b] != 1 for b in made):
        return False
    # Between the first piece and the reader nothing may access what the reader reads or writes.
    for each in statements[pieces[0] : end]:
        read, written = everything(each)
        if written & (taken | made) or read & made:
            return False
    changed: list[tuple[Nest, Store | Reduce, list[Store]]] = []
    points = 0
    for i in pieces:
        piece = statements[i]
        if not isinstance(piece, Nest) or piece.ordered:
            return False
        points += estimate(piece.points)
        for store in [e for e in piece.effects if e.buffer is buffer]:
            stores = _stores(reader, x, store)
            if stores is None:
                return False
            changed.append((piece, store, stores))
    work = sum(map(cost, nodes(reader)))
    if 4 * points > 5 * estimate(reader.points) and work > CHEAP:
        return False
    for piece, store, stores in changed:
        at = next(i for i, e in enumerate(piece.effects) if e is store)
        piece.effects[at : at + 1] = stores
    statements.remove(reader)
    return True


def _is_elementwise(reader: Nest, x: Value) -> bool:
    """Tell whether a nest reads a buffer once, unmasked, and stores at known indices."""
    every = nodes(reader)
    return (
        not x.operands
        and len(every) <= MOST_NODES
        and sum(1 for y in every if y.op == "load" and y.attr[0] is x.attr[0]) == 1
        and all(
            isinstance(e, Store) and e.mask is None and not e.index.operands for e in reader.effects
        )
    )


def _stores(reader: Nest, x: Value, store: Store | Reduce) -> list[Store] | None:
    """Return what the reader stores for a piece, in the piece's axes; None if impossible."""
    if isinstance(store, Reduce) or store.mask is not None or store.index.operands:
        return None
    axes: dict[Axis, Index] | None = solved(x.attr[1], store.index)
    if axes is None or any(axis not in axes for axis in reader.axes if axis.size != 1):
        return None
    values = substituted([e.value for e in reader.effects], axes, {x: store.value})
    return [
        Store(e.buffer, e.index.replaced(axes, {}), value)
        for e, value in zip(reader.effects, values, strict=True)
    ]
