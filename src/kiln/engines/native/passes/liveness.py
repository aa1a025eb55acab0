"""Which buffers hold what is still needed, after each statement.

What a statement writes for certain is known as segments: runs of elements that lie one after
another, from a place that may depend on the loops around. A statement ends the life of what a
buffer held before if it writes all of it, alone or with later ones of its block, and nothing reads
the buffer in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, cast

from kiln.engines.native.extents import at_least, estimate, magnitude, smallest
from kiln.engines.native.loop_ir import (
    Axis,
    Blocked,
    Branch,
    Buffer,
    Copy,
    Function,
    Index,
    Kernel,
    Loop,
    Nest,
    Place,
    Statement,
    Store,
    While,
    blocks,
    walk,
)
from kiln.engines.native.passes.buffers import reads, writes
from kiln.ir.sizes import Dim


class Segment(NamedTuple):
    """Elements of a buffer from `start` on, which has only axes of loops around."""

    start: Index
    size: Dim


Segments = dict[Buffer, list[Segment]]


class Liveness:
    """What each statement of a function leaves alive."""

    def __init__(self, function: Function) -> None:
        self.after: dict[Statement, set[Buffer]] = {}
        """The buffers whose elements are needed after a statement."""
        self.carried: dict[Statement, set[Buffer]] = {}
        """The buffers whose elements are needed when a turn of a loop begins."""
        self._writers: Counter[Buffer] = Counter()
        for each in walk(function.body):
            self._writers.update(set(writes(each)))
        self._segments: dict[Statement, Segments] = {}
        self._reads: dict[Statement, set[Buffer]] = {}
        self._block(function.body, set(function.outputs))

    def _block(self, statements: Sequence[Statement], live: set[Buffer]) -> set[Buffer]:
        """Note what is alive in a block after which `live` is; return what is alive before it."""
        live = set(live)
        pending: Segments = {}
        for statement in reversed(statements):
            self.after.setdefault(statement, set()).update(live)
            before = self._statement(statement, live)
            for buffer, segments in self.written(statement).items():
                later = pending.setdefault(buffer, [])
                later += segments
                if is_covered(later, buffer.size) and buffer not in self._read(statement):
                    before.discard(buffer)
            for buffer in self._read(statement):
                pending.pop(buffer, None)
            live = before
        return live

    def _statement(self, statement: Statement, live: set[Buffer]) -> set[Buffer]:
        """Return what is alive before a statement that may leave all of its results unwritten."""
        match statement:
            case Loop():
                once = self._block(statement.body, live)
                top = self._block(statement.body, live | once)
                self.carried[statement] = top
                return set(top)
            case While():
                after = live | {statement.flag}
                top = self._block(statement.condition, after)
                once = self._block(statement.body, top)
                top = self._block(statement.condition, after | once)
                self._block(statement.body, top)
                self.carried[statement] = top
                return set(top)
            case Branch():
                found = set(reads(statement))
                for block in statement.blocks:
                    found |= self._block(block, live)
                return found
        return live | self._read(statement)

    # What is read and written.

    def _read(self, statement: Statement) -> set[Buffer]:
        """Return the buffers that a statement, or one inside it, reads."""
        found = self._reads.get(statement)
        if found is None:
            found = set(reads(statement))
            for block in blocks(statement):
                for each in block:
                    found |= self._read(each)
            self._reads[statement] = found
        return found

    def written(self, statement: Statement) -> Segments:
        """Return what a statement writes for certain."""
        found = self._segments.get(statement)
        if found is None:
            found = self._segments[statement] = self._find_written(statement)
        return found

    def _find_written(self, statement: Statement) -> Segments:
        match statement:
            case Nest():
                return _of_nest(statement)
            case Copy():
                return _of_place(statement.result, statement.count)
            case Kernel():
                found: Segments = {}
                for place in statement.results:
                    # What this kernel does not write, nothing does.
                    if self._writers[place.buffer] == 1:
                        factors = [magnitude(f) for _, f in place.index.axes()]
                        known = [f for f in factors if f is not None]
                        size = smallest(known or [place.buffer.size])
                        if size is not None and len(known) == len(factors):
                            found |= _of_place(place, size)
                return found
            case Loop():
                return _over(statement.axis, self._of_block(statement.body))
            case While():
                return self._of_block(statement.condition)
            case Blocked():
                return self._of_block(statement.body)
            case Branch():
                each = [self._of_block(block) for block in statement.blocks]
                return {
                    buffer: [Segment(Index(), buffer.size)]
                    for buffer in each[0]
                    if all(is_covered(some.get(buffer, ()), buffer.size) for some in each)
                }

    def _of_block(self, statements: Sequence[Statement]) -> Segments:
        found: Segments = {}
        for statement in statements:
            for buffer, segments in self.written(statement).items():
                found.setdefault(buffer, []).extend(segments)
        return found


def is_covered(segments: Sequence[Segment], size: Dim) -> bool:
    """Tell whether segments are all elements of a buffer, wherever the loops around are."""
    end: Dim = 0
    for index, count in sorted(segments, key=lambda segment: estimate(segment.start.const)):
        if not index.terms and at_least(end, index.const) and at_least(index.const + count, end):
            end = index.const + count
    return at_least(end, size)


def _of_place(place: Place, count: Dim) -> Segments:
    if place.index.operands:
        return {}
    return {place.buffer: [Segment(place.index, count)]}


def _of_nest(nest: Nest) -> Segments:
    own = set(nest.axes)
    parts: dict[tuple[Buffer, frozenset[tuple[object, Dim]]], list[Index]] = {}
    for effect in nest.effects:
        index = effect.index
        certain = not isinstance(effect, Store) or effect.mask is None
        if certain and not index.operands:
            parts.setdefault((effect.buffer, frozenset(index.terms)), []).append(index)
    found: Segments = {}
    for (buffer, _), indices in parts.items():
        # The parts of a complex number lie side by side.
        consts = {index.const for index in indices}
        first, count = min(consts, key=estimate), cast(Dim, len(consts))
        if not all(at_least(first + count, const + 1) for const in consts):
            continue
        if not all(at_least(const, first) for const in consts):
            continue
        outer = []
        mine: list[tuple[Dim, Dim]] = []
        for axis, factor in indices[0].axes():
            if axis not in own:
                outer.append((axis, factor))
                continue
            step = magnitude(factor)
            if step is None:
                break
            if step != factor:
                first += factor * (axis.size - 1)
            mine.append((step, axis.size))
        if len(mine) + len(outer) < len(indices[0].terms):
            continue
        for factor, size in sorted(mine, key=lambda term: estimate(term[0])):
            if factor != count:
                break
            count *= size
        else:
            found.setdefault(buffer, []).append(Segment(Index(first, outer), count))
    return found


def _over(axis: Axis, segments: Segments) -> Segments:
    """Return what all turns of a loop write together."""
    found: Segments = {}
    for buffer, each in segments.items():
        for index, count in each:
            factor = index.factor(axis)
            if factor == 0:
                found.setdefault(buffer, []).append(Segment(index, count))
            elif magnitude(factor) == count:
                first = index.const
                if factor != count:
                    first += factor * (axis.size - 1)
                terms = [(t, f) for t, f in index.terms if t is not axis]
                found.setdefault(buffer, []).append(Segment(Index(first, terms), count * axis.size))
    return found
