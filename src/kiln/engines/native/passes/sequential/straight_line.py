"""Small nests in the bodies of sequential loops become straight-line code.

The nests of a body over a few points are unrolled completely and merged into one nest without axes:
what one of them stores, the next ones use as a value. The elements of small buffers are then
accessed at constant places only, so those that the loop carries are promoted to registers.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kiln.engines.native.loop_ir.buffers import nodes, reads, writes
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.identities import identity
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, Value, cost
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
    While,
    load,
)
from kiln.engines.native.loop_ir.substitution import moved
from kiln.engines.native.passes.dead import drop_unread
from kiln.engines.native.passes.schedule import vector_axis
from kiln.ir.sizes.size import Dim

MOST_UNROLLED = 2000
"""A nest of more nodes, counted at each of its points, is not unrolled."""
MOST_NODES = 1000
"""The straight-line code of one body has no more nodes than this, so that it compiles quickly."""
MOST_BYTES = 256
"""Larger buffers do not fit in the vector registers."""
VECTOR_BYTES = 32
"""How wide vectors are taken to be where straight-line code is compared with vectors."""
STORED = 16
MASKED = 64
"""How many instructions take as long as a vector that is stored, and loaded by the next nest. The
CPU does not forward a masked store to a load."""
GATHERED = 16
"""How many take as long as a vector that is loaded from what scalars have just been stored to: the
CPU forwards no two stores to one load."""


def straighten(function: Function) -> None:
    """Replace the small nests of sequential loops by straight-line code."""
    if function.sites:
        return
    changed: set[Buffer] = set()
    _in_block(function.body, changed, is_inside=False)
    if changed:
        # A vector that is stored before the loop would keep an array in memory.
        _around(function.body, {b for b in changed if is_promoted(b)})
        drop_unread(function)


def _in_block(statements: list[Statement], changed: set[Buffer], *, is_inside: bool) -> None:
    """Straighten all bodies of loops in some statements; add the buffers that they access."""
    for statement in statements:
        if isinstance(statement, Loop) and statement.parallel:
            continue
        inside = is_inside or isinstance(statement, (Loop, While))
        for block in statement.blocks:
            _in_block(block, changed, is_inside=inside)
            if inside and any(isinstance(each, Nest) and each.axes for each in block):
                block[:] = _straightened(block, changed)


def is_promoted(buffer: Buffer) -> bool:
    """Tell whether a buffer is promoted to registers during the loops that access it."""
    return buffer.role in (Role.TEMP, Role.OUTPUT) and is_short(buffer)


def is_short(buffer: Buffer) -> bool:
    """Tell whether the elements of a buffer fit in registers."""
    # Stack space needs a constant size, even if a named size could never make it large.
    return not is_named(buffer.nbytes) and 0 < buffer.nbytes <= MOST_BYTES


def _straightened(body: list[Statement], changed: set[Buffer]) -> list[Statement]:
    """Return the statements of a body with its small nests merged."""
    found: list[Statement] = []
    group = _Group()
    for statement in body:
        if isinstance(statement, Nest) and _may_unroll(statement) and _is_faster(statement, group):
            if group.takes(statement):
                continue
            found += group.nests(changed)
            group = _Group()
            if group.takes(statement):
                continue
        else:
            found += group.nests(changed)
            group = _Group()
        found.append(statement)
    return found + group.nests(changed)


def _around(statements: list[Statement], changed: set[Buffer]) -> None:
    """Unroll the nests outside of loops that write, or read, what loops carry in registers."""
    for i, statement in enumerate(statements):
        if isinstance(statement, Nest) and statement.axes and _may_unroll(statement):
            mine = {*reads(statement), *writes(statement)}
            group = _Group()
            if not changed.isdisjoint(mine) and group.takes(statement):
                (statements[i],) = group.nests(changed)


def _may_unroll(nest: Nest) -> bool:
    """Tell whether a nest may be unrolled completely, and is short enough."""
    if nest.ordered or is_named(nest.points):
        return False
    for effect in nest.effects:
        if isinstance(effect, Store):
            if effect.mask is not None:
                return False
        elif effect.along is not None:
            return False
    every = nodes(nest)
    if int(nest.points) * len(every) > MOST_UNROLLED:
        return False
    return all(x.op != "load" or len(x.operands) == len(x.attr[1].operands) for x in every)


def _is_faster(nest: Nest, before: _Group) -> bool:
    """Tell whether straight-line code has fewer instructions than vectors, roughly.

    In both each value is computed once for the axes on which it depends.
    """
    if not nest.axes:
        return True
    vector = vector_axis(nest)
    if vector is None:
        return True
    length = int(vector.size)
    straight, vectors = 0, 0
    for x, axes in _axes_of(nest).items():
        points = math.prod([int(axis.size) for axis in axes])
        straight += cost(x) * points
        vectors += cost(x) * (
            points * _steps(length, x.dtype) // length if vector in axes else points
        )
    for effect in nest.effects:
        if isinstance(effect, Reduce):
            straight += int(nest.points)
            vectors += int(nest.points) * _steps(length, effect.value.dtype) // length
        vectors += STORED if length & (length - 1) == 0 else MASKED
    vectors += GATHERED * len(before.stored.keys() & set(reads(nest)))
    return straight <= vectors


def _steps(length: int, dtype: str) -> int:
    """Return how many vectors some elements of a type are."""
    return -(-length // (VECTOR_BYTES // NUMPY_TYPES[dtype].itemsize))


def _axes_of(nest: Nest) -> dict[Value, tuple[Axis, ...]]:
    """Return the axes of a nest on which each of its nodes depends; operands come first."""
    found: dict[Value, tuple[Axis, ...]] = {}
    for x in nodes(nest):
        mine = {axis for y in x.operands for axis in found[y]}
        index = x.attr[1] if x.op == "load" else x.attr if x.op == "index" else None
        if index is not None:
            mine.update([axis for axis, _ in index.axes()])
        found[x] = tuple([axis for axis in nest.axes if axis in mine])
    return found


Point = dict[Axis, Index]


class _Group:
    """Consecutive nests as straight-line code."""

    def __init__(self) -> None:
        self.stored: dict[Buffer, dict[Index, Value]] = {}
        self.terms: dict[Buffer, frozenset[Any]] = {}
        """The terms of the indices at which a buffer is written: all differ in constants only."""
        self.known: set[Value] = set()
        self.lines: Counter[Any] = Counter()
        self.source: Any = None
        self.is_empty = True

    def takes(self, nest: Nest) -> bool:
        """Add a nest, unless it is too long, or may access the same elements differently."""
        made = self._values(nest)
        if made is None:
            return False
        terms = dict(self.terms)
        for buffer, index in made:
            mine = frozenset(index.terms)
            if terms.setdefault(buffer, mine) != mine:
                return False
        fresh = _fresh(list(made.values()), self.known)
        if len(self.known) + len(fresh) > MOST_NODES:
            return False
        self.known |= fresh
        self.terms = terms
        for (buffer, index), value in made.items():
            self.stored.setdefault(buffer, {})[index] = value
        self.lines.update(nest.lines)
        if self.is_empty:
            self.source = nest.source
        self.is_empty = False
        return True

    def nests(self, changed: set[Buffer]) -> list[Statement]:
        """Return the nest that computes all of it, if there is any; add what it accesses."""
        if self.is_empty:
            return []
        effects = [
            Store(buffer, index, value)
            for buffer, places in self.stored.items()
            for index, value in places.items()
        ]
        made = Nest((), effects, source=self.source, lines=self.lines)
        changed.update(reads(made), writes(made))
        return [made]

    def _values(self, nest: Nest) -> dict[tuple[Buffer, Index], Value] | None:
        """Return what a nest writes, in terms of what was in memory before the group."""
        values = self._unrolled(nest)
        if values is None:
            return None
        made: dict[tuple[Buffer, Index], Value] = {}
        sums: dict[tuple[Buffer, Index], Reduce] = {}
        for place in _points(nest.axes):
            for effect in nest.effects:
                value = values[effect.value].at(place)
                operands = {y: values[y].at(place) for y in effect.index.operands}
                key = effect.buffer, effect.index.replaced(place, operands)
                if isinstance(effect, Reduce):
                    sums[key] = effect
                    scope, dtype = value.scope, value.dtype
                    before = made.get(key) or identity(scope, effect.op, dtype)
                    value = scope.op(effect.op, dtype, before, value)
                made[key] = value
        for key, effect in sums.items():
            made[key] = made[key].convert(effect.buffer.dtype)
        return made

    def _unrolled(self, nest: Nest) -> dict[Value, _Unrolled] | None:
        """Return the values of all nodes of a nest; None if one that is read is not known."""
        found: dict[Value, _Unrolled] = {}
        for x, axes in _axes_of(nest).items():
            mine = found[x] = _Unrolled(axes)
            operands = [(y, found[y]) for y in x.operands]
            for place in _points(axes):
                values = {y: unrolled.at(place) for y, unrolled in operands}
                made = self._loaded(x, place, values) if x.op == "load" else moved(x, place, values)
                if made is None:
                    return None
                mine.values[_key(axes, place)] = made
        return found

    def _loaded(self, x: Value, place: Point, values: dict[Value, Value]) -> Value | None:
        """Return what is loaded at a point; None if the group may have stored it elsewhere."""
        buffer, index = x.attr
        at = index.replaced(place, values)
        stored = self.stored.get(buffer)
        if stored is not None:
            value = stored.get(at)
            if value is not None:
                return value
            if frozenset(at.terms) != self.terms[buffer]:
                return None
        return load(x.scope, buffer, at)


class _Unrolled:
    """A value at each point of the axes on which it depends."""

    __slots__ = ("axes", "values")

    def __init__(self, axes: tuple[Axis, ...]) -> None:
        self.axes = axes
        self.values: dict[tuple[Dim, ...], Value] = {}

    def at(self, place: Point) -> Value:
        """Return the value at a point."""
        return self.values[_key(self.axes, place)]


def _key(axes: tuple[Axis, ...], place: Point) -> tuple[Dim, ...]:
    return tuple([place[axis].const for axis in axes])


def _points(axes: tuple[Axis, ...]) -> Iterator[Point]:
    """Iterate over the points of a box, the last axis first."""
    numbers = [[Index(i) for i in range(int(axis.size))] for axis in axes]
    return (dict(zip(axes, point, strict=True)) for point in itertools.product(*numbers))


def _fresh(roots: Sequence[Value], known: set[Value]) -> set[Value]:
    """Return the unknown nodes below some; the operands of a known node are known."""
    found: set[Value] = set()
    stack = list(roots)
    while stack:
        x = stack.pop()
        if x not in known and x not in found:
            found.add(x)
            stack.extend(x.operands)
    return found
