"""Where temporaries lie: values that are not needed at the same time share memory.

Statements are numbered in order; a temporary lives from the first statement that writes it to the
last that touches it. One that a loop meets lives throughout the loop if it is alive before or after
it, or carries a value from turn to turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from kiln.engines.native.loop_ir import (
    Branch,
    Buffer,
    Copy,
    Function,
    Kernel,
    Loop,
    Nest,
    Place,
    Role,
    Statement,
    Store,
    While,
    blocks,
)
from kiln.engines.native.scalars import Value, postorder

ALIGNMENT = 64


def nodes(nest: Nest) -> list[Value]:
    """Return all nodes of a nest, operands first."""
    roots = [effect.value for effect in nest.effects]
    roots += [value for effect in nest.effects for value, _ in effect.index.values()]
    roots += [e.mask for e in nest.effects if isinstance(e, Store) and e.mask is not None]
    return postorder(roots)


def loaded(values: list[Value]) -> Iterator[Buffer]:
    """Iterate over the buffers that nodes read."""
    return (x.attr[0] for x in values if x.op == "load")


def reads(statement: Statement) -> Iterator[Buffer]:
    """Iterate over the buffers that a statement itself reads."""
    match statement:
        case Nest():
            yield from loaded(nodes(statement))
        case Kernel():
            yield from _touched(statement.operands)
            for place in statement.results:
                yield from _numbers(place)
        case Copy():
            yield from _touched([statement.operand])
            yield from _numbers(statement.result)
        case Branch():
            yield from _touched([statement.number])
        case While():
            yield statement.flag
        case _:
            return


def writes(statement: Statement) -> Iterator[Buffer]:
    """Iterate over the buffers that a statement itself writes."""
    match statement:
        case Nest():
            for effect in statement.effects:
                yield effect.buffer
        case Kernel():
            for place in statement.results:
                yield place.buffer
        case Copy():
            yield statement.result.buffer
        case _:
            return


def _touched(places: list[Place]) -> Iterator[Buffer]:
    for place in places:
        yield place.buffer
        yield from _numbers(place)


def _numbers(place: Place) -> Iterator[Buffer]:
    return loaded(postorder([value for value, _ in place.index.values()]))


class _Lives:
    """The first and the last statement of each temporary's life."""

    def __init__(self) -> None:
        self.now = 0
        self.spans: dict[Buffer, list[int]] = {}

    def touch(self, buffer: Buffer) -> None:
        if buffer.role is Role.TEMP:
            self.spans.setdefault(buffer, [self.now, self.now])[1] = self.now

    def walk(self, statements: list[Statement]) -> None:
        for statement in statements:
            self.now += 1
            for buffer in (*reads(statement), *writes(statement)):
                self.touch(buffer)
            inner = blocks(statement)
            if not inner:
                continue
            start = self.now
            for block in inner:
                self.walk(block)
            self.now += 1
            if isinstance(statement, (Loop, While)):
                self._stretch(statement, start)

    def _stretch(self, statement: Statement, start: int) -> None:
        """Let what a loop carries, or shares with its surroundings, live throughout it."""
        carried = carried_buffers(statement)
        for buffer, span in self.spans.items():
            if span[1] >= start and (span[0] < start or buffer in carried):
                span[0], span[1] = min(span[0], start), self.now


def carried_buffers(statement: Statement) -> set[Buffer]:
    """Return the buffers that a turn of a loop may read before it has written them."""
    written: set[Buffer] = set()
    early: set[Buffer] = set()

    def walk(statements: list[Statement], certain: bool) -> None:
        for each in statements:
            early.update(buffer for buffer in reads(each) if buffer not in written)
            for block in blocks(each):
                walk(block, False)
            if certain and isinstance(each, (Kernel, Copy)):
                written.update(writes(each))
            elif certain and isinstance(each, Nest) and all(
                not isinstance(e, Store) or e.mask is None for e in each.effects
            ):
                written.update(writes(each))

    for block in blocks(statement):
        walk(block, True)
    return early


def workspace(function: Function) -> tuple[dict[Buffer, int], int]:
    """Return the offset of each temporary, and the bytes they take together."""
    lives = _Lives()
    lives.walk(function.body)
    offsets: dict[Buffer, int] = {}
    placed: list[tuple[int, int, int, int]] = []
    total = 0
    order = sorted(lives.spans.items(), key=lambda item: -item[0].nbytes)
    for buffer, (first, last) in order:
        size = -(-max(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        offset = 0
        for begin, end, start, stop in placed:
            if begin >= offset + size:
                break
            if start <= last and first <= stop and begin < offset + size and offset < end:
                offset = end
        offsets[buffer] = offset
        placed.append((offset, offset + size, first, last))
        placed.sort()
        total = max(total, offset + size)
    return offsets, total
