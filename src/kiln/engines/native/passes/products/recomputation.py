"""Recomputation: what a gradient reads of a chain once more is recomputed, if it is large."""

from __future__ import annotations

from collections import Counter

from kiln.engines.native.loop_ir.buffers import everything, reads, writes
from kiln.engines.native.loop_ir.statements import (
    Buffer,
    Index,
    Kernel,
    Nest,
    Place,
    Role,
    Statement,
)
from kiln.engines.native.passes.products.chains import FARTHEST, Chain, numbers_of
from kiln.engines.native.passes.rebuilding import with_places

RECOMPUTED_BYTES = 1 << 24
"""What a gradient reads once more is recomputed if it has at least this many bytes."""


class Recomputation:
    """The statements after a chain, which recompute what they read of it.

    `is_possible` tells whether they are then a chain in which it is not materialized either.
    """

    def __init__(self, statements: list[Statement], start: int, touches: Counter[Buffer]) -> None:
        self.is_possible = False
        chain = Chain(statements, start, touches)
        kept = chain.contracted()
        large = {
            buffer
            for buffer, width in chain.widths.items()
            if buffer.role is Role.TEMP
            and buffer not in kept
            and width == chain.columns
            and int(buffer.nbytes) >= RECOMPUTED_BYTES
        }
        if not large or not chain.items:
            return
        parts, outside = self.parts(chain, large)
        later = [*chain.after, *statements[chain.end :]]
        if any(outside & everything(each)[1] for each in later):
            return
        made = {
            buffer: Buffer(buffer.name, buffer.dtype, buffer.size, Role.TEMP)
            for each in parts
            for buffer in writes(each)
        }
        copies = [_renamed(each, made) for each in parts]
        renamed = {buffer: made[buffer] for buffer in large}
        first = next((i for i, x in enumerate(later) if large & everything(x)[0]), None)
        if first is None:
            return
        # A product that only the following statements read belongs to them.
        for i in range(first - 1, max(-1, first - FARTHEST), -1):
            numbers = numbers_of(later[i])
            if numbers is not None and (numbers.batch, numbers.m, numbers.n) == (
                chain.count,
                chain.rows,
                chain.columns,
            ):
                first = i
        self.touches = Counter(touches)
        found: list[Statement] = []
        for each in later:
            if isinstance(each, (Nest, Kernel)) and large & {*reads(each)}:
                self.touches.subtract({*reads(each), *writes(each)})
                each = _renamed(each, renamed)
                self.touches.update({*reads(each), *writes(each)})
            found.append(each)
        found[first:first] = copies
        for each in copies:
            self.touches.update({*reads(each), *writes(each)})
        head = [*statements[:start], *chain.before, *chain.body]
        self.start, self.end = start + len(chain.before), len(head)
        self.statements = [*head, *found]
        at = len(head) + first
        following = Chain(self.statements, at, self.touches)
        private = following.contracted()
        self.is_possible = following.is_worth_it() and all(
            made[buffer] in private for buffer in made if chain.widths[buffer] == chain.columns
        )

    def parts(self, chain: Chain, wanted: set[Buffer]) -> tuple[list[Statement], set[Buffer]]:
        """Return the statements that compute buffers, and what they read from outside."""
        needed, outside = set(wanted), set()
        found: list[Statement] = []
        for each in reversed(chain.body):
            if needed & {*writes(each)}:
                found.insert(0, each)
                inside = {x for x in reads(each) if x in chain.written}
                needed |= inside
                outside |= {*reads(each)} - inside
        return found, outside


def _renamed(statement: Statement, made: dict[Buffer, Buffer]) -> Nest | Kernel:
    """Return a statement that accesses other buffers."""

    def move(buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
        return made.get(buffer, buffer), index

    if isinstance(statement, Nest):
        return with_places(statement, statement.axes, move)
    assert isinstance(statement, Kernel)
    operands, results = (
        [Place(made.get(place.buffer, place.buffer), place.index) for place in places]
        for places in (statement.operands, statement.results)
    )
    return Kernel(
        statement.symbol, operands, results, statement.numbers, statement.source, statement.grain
    )
