"""Whether two nests, or parallel loops, are the same code on other buffers and axes."""

from __future__ import annotations

from collections.abc import Hashable

from kiln.engines.native.loop_ir.buffers import nodes
from kiln.engines.native.loop_ir.scalars import Value
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Buffer,
    Index,
    Loop,
    Nest,
    Role,
    Statement,
    Store,
)
from kiln.ir.sizes.size import Dim


def structure(statement: Nest | Loop) -> Hashable:
    """Return a key that is equal for statements with the same code: buffers and axes are numbered.

    None if a loop contains anything but nests and loops of them.
    """
    found = _Structure()
    return tuple(found.parts) if found.statement(statement) else None


class _Structure:
    def __init__(self) -> None:
        self.parts: list[Hashable] = []
        self.buffers: dict[Buffer, int] = {}
        self.axes: dict[Axis, tuple[int, Dim]] = {}

    def axis(self, axis: Axis) -> Hashable:
        """Return the number of an axis, and its size."""
        return self.axes.setdefault(axis, (len(self.axes), axis.size))

    def buffer(self, buffer: Buffer) -> Hashable:
        number = self.buffers.setdefault(buffer, len(self.buffers))
        return number, buffer.dtype, buffer.size if buffer.role is Role.ROW else 0

    def index(self, index: Index, values: dict[Value, int]) -> Hashable:
        terms = [
            (self.axis(term) if isinstance(term, Axis) else values[term], factor)
            for term, factor in index.terms
        ]
        return (index.const, *terms)

    def statement(self, statement: Statement) -> bool:
        """Add a statement; return whether it is nests and loops only."""
        if isinstance(statement, Nest):
            self.add(statement)
            return True
        if not isinstance(statement, Loop):
            return False
        self.parts.append((self.axis(statement.axis), len(statement.body)))
        return all(self.statement(each) for each in statement.body)

    def add(self, nest: Nest) -> None:
        parts = self.parts
        values: dict[Value, int] = {}
        parts.append((nest.ordered, *map(self.axis, nest.axes)))
        for x in nodes(nest):
            attr = x.attr
            if x.op == "load":
                attr = (self.buffer(attr[0]), self.index(attr[1], values))
            elif x.op == "index":
                attr = self.index(attr, values)
            parts.append((x.op, x.dtype, attr, *[values[y] for y in x.operands]))
            values[x] = len(values)
        for effect in nest.effects:
            place = self.buffer(effect.buffer), self.index(effect.index, values)
            if isinstance(effect, Store):
                mask = None if effect.mask is None else values[effect.mask]
                parts.append((*place, values[effect.value], mask))
            else:
                along = None if effect.along is None else self.axis(effect.along)
                parts.append((*place, values[effect.value], effect.op, along))
