"""What statements read and write, and which axes they depend on."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set

from kiln.engines.native.loop_ir.scalars import Value, postorder
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
    Role,
    Statement,
    While,
    walk,
)

Touched = dict[Statement, tuple[Set[Buffer], Set[Buffer]]]
"""The buffers that statements, and those inside them, read and write."""
_NOTHING: Touched = {}
SHALLOW = 8
"""Down to this nesting depth, private buffers of blocks are not computed."""


def roots_of(nest: Nest) -> list[Value]:
    """Return the expressions of a nest: of each effect its value, index and mask."""
    return [root for effect in nest.effects for root in effect.roots()]


def nodes(nest: Nest) -> Sequence[Value]:
    """Return all nodes of a nest, operands first."""
    effects = nest.effects
    if len(effects) == 1:
        return effects[0].nodes
    return list(dict.fromkeys(itertools.chain.from_iterable([e.nodes for e in effects])))


def loads(nest: Nest) -> Sequence[Value]:
    """Return the loads of a nest, in the order of its nodes."""
    effects = nest.effects
    if len(effects) == 1:
        return effects[0].loads
    return list(dict.fromkeys(itertools.chain.from_iterable([e.loads for e in effects])))


def loaded(values: Iterable[Value]) -> Iterator[Buffer]:
    """Iterate over the buffers that nodes read."""
    return (x.attr[0] for x in values if x.op == "load")


def accesses(nest: Nest) -> Iterator[tuple[Buffer, Index]]:
    """Iterate over what a nest reads and writes, and where."""
    yield from (x.attr for x in loads(nest))
    yield from ((effect.buffer, effect.index) for effect in nest.effects)


def reads(statement: Statement) -> Iterator[Buffer]:
    """Iterate over the buffers that a statement itself reads, without those inside it."""
    match statement:
        case Nest():
            for x in loads(statement):
                yield x.attr[0]
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
    """Iterate over the buffers that a statement itself writes, without those inside it."""
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


def everything(statement: Statement, known: Touched = _NOTHING) -> tuple[Set[Buffer], Set[Buffer]]:
    """Return the buffers that a statement and those inside it read and write.

    Statements whose buffers are `known` are not traversed.
    """
    found = known.get(statement)
    if found is not None:
        return found
    read, written = set(reads(statement)), set(writes(statement))
    for block in statement.blocks:
        for each in block:
            more_read, more_written = everything(each, known)
            read |= more_read
            written |= more_written
    return read, written


class Sharing:
    """Which buffers statements with blocks share with the enclosing code.

    Buffers that only inner statements access are invisible outside: otherwise the sets of deeply
    nested statements would grow with their depth. At small depths all are kept.
    """

    def __init__(self, function: Function) -> None:
        deep = _is_deep(function.body, SHALLOW)
        self._known = _shared_buffers(function) if deep else None

    def __call__(self, statement: Statement, buffers: Set[Buffer]) -> Set[Buffer]:
        """Return those buffers accessed by a statement that others may access."""
        return buffers if self._known is None else buffers & self._known[statement]


class Touches:
    """The buffers that statements, and those inside them, read and write; from the inside out."""

    def __init__(self, function: Function) -> None:
        self._sharing = Sharing(function)
        self._known: Touched = {}

    def of(self, statement: Statement) -> tuple[Set[Buffer], Set[Buffer]]:
        """Return the buffers that a statement reads and writes and that others may access."""
        return everything(statement, self._known)

    def note(self, statement: Statement) -> tuple[Set[Buffer], Set[Buffer]]:
        """Return all buffers that a statement with blocks reads and writes, and cache them."""
        read, written = everything(statement, self._known)
        self._known[statement] = self._sharing(statement, read), self._sharing(statement, written)
        return read, written


def _is_deep(statements: Sequence[Statement], depth: int) -> bool:
    """Tell whether blocks are nested in statements more than `depth` deep."""
    for statement in statements:
        for block in statement.blocks:
            if depth == 0 or _is_deep(block, depth - 1):
                return True
    return False


def _shared_buffers(function: Function) -> dict[Statement, set[Buffer]]:
    """Return, for each statement with blocks, the buffers that others access too."""
    own = {x: {*reads(x), *writes(x)} for x in walk(function.body)}
    touches = Counter((*function.inputs, *function.outputs))
    for buffers in own.values():
        touches.update(buffers)
    found: dict[Statement, set[Buffer]] = {}

    def count(statements: Sequence[Statement], times: dict[Buffer, int]) -> None:
        for statement in statements:
            inside = dict.fromkeys(own[statement], 1)
            if inner := statement.blocks:
                for block in inner:
                    count(block, inside)
                inside = {b: n for b, n in inside.items() if n < touches[b]}
                found[statement] = set(inside)
            for buffer, number in inside.items():
                times[buffer] = times.get(buffer, 0) + number

    count(function.body, {})
    return found


def is_whole(copy: Copy) -> bool:
    """Tell whether a statement copies all elements of a buffer to another of the same type."""
    of, to = copy.operand, copy.result
    return (
        of.index == to.index == Index()
        and copy.count == to.buffer.size == of.buffer.size
        and of.buffer.dtype == to.buffer.dtype
    )


def touched(statement: Nest | Loop) -> list[Buffer]:
    """Return the buffers of a statement, except rows, in the order of their occurrence."""
    return [
        b for b in everywhere(statement) if b.role is not Role.ROW or isinstance(statement, Nest)
    ]


def everywhere(statement: Statement) -> list[Buffer]:
    """Return all buffers of a statement and those inside it, in the order of their occurrence."""
    found = dict.fromkeys((*reads(statement), *writes(statement)))
    for block in statement.blocks:
        for each in block:
            found.update(dict.fromkeys(everywhere(each)))
    return list(found)


def axes_of(statement: Statement) -> list[Axis]:
    """Return all axes that a statement depends on, in the order of their occurrence."""
    found: dict[Axis, None] = {}
    if isinstance(statement, Nest):
        for x in nodes(statement):
            index = x.attr[1] if x.op == "load" else x.attr if x.op == "index" else None
            if index is not None:
                found.update((axis, None) for axis, _ in index.axes())
        for effect in statement.effects:
            found.update((axis, None) for axis, _ in effect.index.axes())
    for block in statement.blocks:
        for each in block:
            found.update(dict.fromkeys(axes_of(each)))
    return list(found)


def _touched(places: list[Place]) -> Iterator[Buffer]:
    for place in places:
        yield place.buffer
        yield from _numbers(place)


def _numbers(place: Place) -> Iterator[Buffer]:
    operands = place.index.operands
    return loaded(postorder(operands)) if operands else iter(())
