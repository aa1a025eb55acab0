"""Liveness: which buffers are still needed after each statement.

What a statement definitely writes is represented as segments: runs of contiguous elements from a
start that may depend on enclosing loops. A statement kills the previous contents of a buffer if it
overwrites all of it, alone or with later ones of its block, and nothing reads the buffer in
between.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import cast

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.loop_ir.buffers import Sharing, reads, writes
from kiln.engines.native.loop_ir.extents import at_least, estimate, is_positive, magnitude, smallest
from kiln.engines.native.loop_ir.statements import (
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
    walk,
)
from kiln.ir.sizes.size import Dim


class Segment(NamedTuple):
    """Elements of a buffer from `start` on, which depends only on axes of enclosing loops."""

    start: Index
    size: Dim


Segments = dict[Buffer, list[Segment]]


class _Effect(NamedTuple):
    """The transfer function of statements: live before are `needs`, and all after but `ends`."""

    needs: Set[Buffer]
    ends: Set[Buffer]

    def before(self, live: Set[Buffer]) -> Set[Buffer]:
        """Return what is live before, given what is live after."""
        return (live - self.ends) | self.needs


class Liveness:
    """Which of the given buffers are live after each statement of a function.

    Each statement is visited twice, at any nesting depth: first from the inside out, for its
    transfer function; then from the outside in, for what is live around it.
    """

    def __init__(self, function: Function, concerned: Collection[Buffer] | None = None) -> None:
        self.after: dict[Statement, Set[Buffer]] = {}
        """The buffers, among those `concerned`, that are live after a statement; empty if there are
        none."""
        self.carried: dict[Statement, Set[Buffer]] = {}
        """The buffers that are live at the start of an iteration of a loop."""
        self._concerned = None if concerned is None else set(concerned)
        self._function = function
        self._shared: set[Buffer] | None = None
        self.sharing = Sharing(function)
        self._segments: dict[Statement, Segments] = {}
        self._reads: dict[Statement, Set[Buffer]] = {}
        self._effects: dict[Statement, _Effect] = {}
        self._of_blocks: dict[int, _Effect] = {}
        self._effect_of_block(function.body)
        self._note(function.body, self._of_interest(set(function.outputs)))

    def _of_interest(self, buffers: Set[Buffer]) -> Set[Buffer]:
        return buffers if self._concerned is None else buffers & self._concerned

    # Inside out: transfer functions.

    def _effect_of_block(self, statements: Sequence[Statement]) -> _Effect:
        found = self._of_blocks.get(id(statements))
        if found is not None:
            return found
        needs: set[Buffer] = set()
        ends: set[Buffer] = set()
        pending = _Pending()
        for statement in reversed(statements):
            own = self._effect(statement)
            read = self._read(statement)
            over = {
                buffer
                for buffer, segments in self.written(statement).items()
                if pending.covers(buffer, segments) and buffer not in read
            }
            effect = _Effect(own.needs - over, self._of_interest(own.ends | over))
            self._effects[statement] = effect
            pending.end(read)
            needs -= effect.ends
            needs |= effect.needs
            ends |= effect.ends
        return self._of_blocks.setdefault(id(statements), _Effect(needs, ends))

    def _effect(self, statement: Statement) -> _Effect:
        """Return the transfer function of a statement that may write none of its results."""
        match statement:
            case Loop():
                # What an iteration needs from the previous iteration is what it needs from before
                # the loop.
                iteration = self._effect_of_block(statement.body)
                runs = is_positive(statement.axis.size)
                return _Effect(
                    iteration.needs, self.sharing(statement, iteration.ends) if runs else set()
                )
            case While():
                condition = self._effect_of_block(statement.condition)
                iteration = self._effect_of_block(statement.body)
                again = self._of_interest({statement.flag}) | iteration.needs
                return _Effect(condition.before(again), condition.ends)
            case Branch():
                each = [self._effect_of_block(block) for block in statement.blocks]
                needs, ends = self._of_interest(set(reads(statement))), each[0].ends
                for x in each:
                    needs, ends = needs | x.needs, ends & x.ends
                return _Effect(needs, ends)
        return _Effect(self._of_interest(self._read(statement)), set())

    # Outside in: live buffers.

    def _note(self, statements: Sequence[Statement], live: Set[Buffer]) -> None:
        """Record what is live in a block after which `live` is live."""
        live = set(live)
        for statement in reversed(statements):
            if self._concerned is not None:
                self.after[statement] = set(live)
            match statement:
                case Loop():
                    iteration = self._of_blocks[id(statement.body)]
                    top = self.carried[statement] = iteration.before(live)
                    self._note(statement.body, live | top)
                case While():
                    condition = self._of_blocks[id(statement.condition)]
                    iteration = self._of_blocks[id(statement.body)]
                    after = live | self._of_interest({statement.flag})
                    after |= iteration.before(condition.before(after))
                    top = self.carried[statement] = condition.before(after)
                    self._note(statement.condition, after)
                    self._note(statement.body, top)
                case Branch():
                    for block in statement.blocks:
                        self._note(block, live)
            effect = self._effects[statement]
            live -= effect.ends
            live |= effect.needs

    # Reads and writes.

    def _is_shared(self, buffer: Buffer) -> bool:
        """Tell whether more than one statement writes a buffer."""
        if self._shared is None:
            self._shared = set()
            written: set[Buffer] = set()
            for each in walk(self._function.body):
                own = set(writes(each))
                self._shared |= written & own
                written |= own
        return buffer in self._shared

    def _read(self, statement: Statement) -> Set[Buffer]:
        """Return the buffers that a statement, or one inside it, reads and shares with others."""
        found = self._reads.get(statement)
        if found is None:
            found = set(reads(statement))
            inner = statement.blocks
            for block in inner:
                for each in block:
                    found |= self._read(each)
            if inner and not isinstance(statement, Blocked):
                found = self.sharing(statement, found)
            self._reads[statement] = found
        return found

    def written(self, statement: Statement) -> Segments:
        """Return what a statement definitely writes of the buffers that it shares with others."""
        found = self._segments.get(statement)
        if found is None:
            found = self._find_written(statement)
            if statement.blocks:
                shared = self.sharing(statement, found.keys())
                found = {
                    buffer: _joined(each, buffer.size)
                    for buffer, each in found.items()
                    if buffer in shared
                }
            self._segments[statement] = found
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
                    # Whatever this kernel does not write is never written.
                    if not self._is_shared(place.buffer):
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


_UNKNOWN = 1 << 62
"""Stands for a symbolic number of elements."""


class _Pending:
    """What the later statements of a block write before anything reads it."""

    def __init__(self) -> None:
        self._segments: Segments = {}
        self._counts: dict[Buffer, int] = {}

    def covers(self, buffer: Buffer, segments: Sequence[Segment]) -> bool:
        """Add segments, and tell whether all segments of the buffer are all of its elements."""
        later = self._segments.setdefault(buffer, [])
        later += segments
        count = self._counts.get(buffer, 0)
        for _, size in segments:
            count += size if isinstance(size, int) else _UNKNOWN
        self._counts[buffer] = count
        # Avoid quadratic time for a thousand parts of one buffer.
        if isinstance(buffer.size, int) and count < buffer.size:
            return False
        return is_covered(later, buffer.size)

    def end(self, buffers: Set[Buffer]) -> None:
        """Forget what is written to buffers."""
        for buffer in buffers:
            if self._segments.pop(buffer, None) is not None:
                self._counts.pop(buffer, None)


def is_covered(segments: Sequence[Segment], size: Dim) -> bool:
    """Tell whether segments cover a buffer in every iteration of the enclosing loops."""
    if len(segments) > 1:
        segments = sorted(segments, key=lambda segment: estimate(segment.start.const))
    end: Dim = 0
    for index, count in segments:
        if not index.terms and at_least(end, index.const) and at_least(index.const + count, end):
            end = index.const + count
    return at_least(end, size)


def _joined(segments: list[Segment], size: Dim) -> list[Segment]:
    """Return a single segment if they cover all elements: enclosing loops need no more."""
    if len(segments) > 1 and is_covered(segments, size):
        return [Segment(Index(), size)]
    return segments


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
        # The parts of a complex number are adjacent.
        first, count = indices[0].const, cast(Dim, 1)
        if len(indices) > 1:
            consts = {index.const for index in indices}
            first, count = min(consts, key=estimate), len(consts)
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
    """Return what all iterations of a loop write together."""
    found: Segments = {}
    for buffer, each in segments.items():
        for index, count in each:
            factor = index.factor(axis)
            if factor == 0:
                # If the loop may have no iteration, it may write nothing.
                if is_positive(axis.size):
                    found.setdefault(buffer, []).append(Segment(index, count))
            elif magnitude(factor) == count:
                first = index.const
                if factor != count:
                    first += factor * (axis.size - 1)
                terms = [(t, f) for t, f in index.terms if t is not axis]
                found.setdefault(buffer, []).append(Segment(Index(first, terms), count * axis.size))
    return found
