"""What statements read and write."""

from __future__ import annotations

from collections.abc import Iterator

from kiln.engines.native.loop_ir import (
    Branch,
    Buffer,
    Copy,
    Kernel,
    Nest,
    Place,
    Statement,
    Store,
    While,
)
from kiln.engines.native.scalars import Value, postorder


def roots_of(nest: Nest) -> list[Value]:
    """Return the expressions of a nest: of each effect its value, index and mask."""
    found = []
    for effect in nest.effects:
        found.append(effect.value)
        found += [value for value, _ in effect.index.values()]
        if isinstance(effect, Store) and effect.mask is not None:
            found.append(effect.mask)
    return found


def nodes(nest: Nest) -> list[Value]:
    """Return all nodes of a nest, operands first."""
    return postorder(roots_of(nest))


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
