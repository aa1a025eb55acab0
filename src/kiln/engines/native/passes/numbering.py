"""Value numbering: what another buffer already holds is not recomputed.

A buffer is settled if only statements of one block write it, and only that block and those inside
it read it. Its value is numbered by the text of its writers: kernels, copies, and the effects of
nests, with the buffers that they read. Two settled buffers with one number hold the same elements
once the second is written, if the block of the first contains that of the second, and nothing that
they are computed from is written in between. Later statements then read the first, and the second
is dead. A result of the program becomes a copy of the first. Nests go on reading the second if it
is cheap: fusion recomputes it there, and merges nests rather than let them share memory.

A value that is read later than before may be live while others are. What is kept longer adds up to
at most `KEPT` bytes, or a fraction of the operands and results.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence

from kiln.engines.native.loop_ir.buffers import nodes, reads, roots_of, writes
from kiln.engines.native.loop_ir.extents import estimate
from kiln.engines.native.loop_ir.scalars import cost
from kiln.engines.native.loop_ir.statements import (
    EFFECTS,
    Branch,
    Buffer,
    Copy,
    Function,
    Index,
    Kernel,
    Loop,
    Nest,
    Place,
    Reduce,
    Role,
    Statement,
    Store,
    While,
)
from kiln.engines.native.loop_ir.substitution import Moving, substituted
from kiln.engines.native.passes.dead import drop_unread
from kiln.engines.native.passes.rebuilding import with_roots

KEPT = 1 << 20
"""This many bytes may always be kept longer."""
FRACTION = 4
"""The operands and results of a program have at least this many times what is kept longer."""

DEAR = 16
"""A nest is worth sharing between nests if it reduces, or has more operations than this at each of
at least `POINTS` points."""
POINTS = 64

Part = tuple[Buffer, Hashable]
"""A buffer that a statement writes, and the text of what it writes there."""


def number_values(function: Function) -> None:
    """Let statements read the first of several buffers with the same elements."""
    if _repeats(function.body, set()):
        numbering = _Numbering(function)
        numbering.block(function.body)
        if numbering.same:
            drop_unread(function)


def _repeats(statements: Sequence[Statement], seen: set[Hashable]) -> bool:
    """Tell whether a block writes a buffer as a statement before it does: most programs do not.

    `seen` are the texts of what precedes the block.
    """
    mine: list[Hashable] = []
    for statement in statements:
        if isinstance(statement, Nest) and all(map(_is_constant, statement.effects)):
            continue
        for _, text in _parts(statement):
            if text in seen:
                return True
            seen.add(text)
            mine.append(text)
        for block in statement.blocks:
            if _repeats(block, seen):
                return True
    seen.difference_update(mine)
    return False


def _parts(statement: Statement) -> Iterator[Part]:
    """Iterate over what a statement without blocks and side effects writes."""
    match statement:
        case Nest():
            around = statement.axes, statement.ordered
            effects = statement.effects
            if len(effects) == 1:
                yield effects[0].buffer, (around, _effect_text(effects[0]))
                return
            texts: dict[Buffer, list[Hashable]] = {}
            for effect in effects:
                texts.setdefault(effect.buffer, []).append(_effect_text(effect))
            for buffer, each in texts.items():
                yield buffer, (around, *each)
        case Kernel() if statement.symbol not in EFFECTS:
            operands = tuple([(x.buffer, x.index) for x in statement.operands])
            places = tuple([_place_text(x) for x in statement.results])
            text = statement.symbol, operands, places, statement.numbers
            for i, place in enumerate(statement.results):
                yield place.buffer, (i, text)
        case Copy():
            of, to = statement.operand, statement.result
            yield to.buffer, (of.buffer, of.index, _place_text(to), statement.count)


def _place_text(place: Place) -> Hashable:
    return place.index, place.buffer.dtype, place.buffer.size


def _effect_text(effect: Store | Reduce) -> Hashable:
    where = effect.index, effect.buffer.dtype, effect.buffer.size
    if isinstance(effect, Store):
        return where, effect.value, effect.mask
    return where, effect.value, effect.op, effect.along


def _is_constant(effect: Store | Reduce) -> bool:
    """Tell whether an effect stores a number, which fusion recomputes."""
    return isinstance(effect, Store) and effect.value.op == "constant"


def _is_dear(statement: Statement) -> bool:
    """Tell whether nests should read what another statement computed like this one."""
    if not isinstance(statement, Nest) or not statement.is_map:
        return True
    if estimate(statement.points) < POINTS:
        return False
    return sum(map(cost, nodes(statement))) > DEAR


class _Uses:
    """Where a buffer is read and written: positions of statements in program order."""

    __slots__ = ("block", "last_read", "writes")

    def __init__(self) -> None:
        self.writes: list[int] = []
        self.block: int | None = None
        """The block of the first writer."""
        self.last_read = -1


class _Known:
    """A settled buffer: where the first of its writers is, in how many loops, and what they do."""

    __slots__ = ("buffer", "depth", "first", "is_dear", "operands", "texts")

    def __init__(self, buffer: Buffer, first: int, depth: int) -> None:
        self.buffer = buffer
        self.first = first
        self.depth = depth
        self.is_dear = False
        self.texts: list[Hashable] = []
        self.operands: set[Buffer] = set()


class _Numbering:
    def __init__(self, function: Function) -> None:
        self.same: dict[Buffer, Buffer] = {}
        """Which buffer holds the elements of another one."""
        self._dear: dict[Buffer, Buffer] = {}
        """Those that nests read instead."""
        self._function = function
        self._uses: dict[Buffer, _Uses] = {}
        self._unsettled: set[Buffer] = set()
        self._ends: dict[int, int] = {}
        self._known: dict[Hashable, _Known] = {}
        self._parts: dict[Buffer, _Known] = {}
        self._loop_ends: list[int] = []
        self._now = 0
        self._note(function.body)
        self._now = 0
        around = {*function.inputs, *function.outputs}
        self._most_kept = max(KEPT, sum(estimate(x.nbytes) for x in around) // FRACTION)

    # Where buffers are read and written.

    def _use(self, buffer: Buffer) -> _Uses:
        found = self._uses.get(buffer)
        if found is None:
            found = self._uses[buffer] = _Uses()
        return found

    def _note(self, statements: Sequence[Statement]) -> None:
        here = id(statements)
        for statement in statements:
            now = self._now
            self._now += 1
            for buffer in reads(statement):
                self._use(buffer).last_read = now
            for buffer in set(writes(statement)):
                use = self._use(buffer)
                use.block = use.block or here
                if use.block != here:
                    self._unsettled.add(buffer)
                use.writes.append(now)
            for block in statement.blocks:
                self._note(block)
        self._ends[here] = self._now

    def _is_settled(self, buffer: Buffer, end: int) -> bool:
        """Tell whether a buffer that a block writes is settled; the block ends at a position."""
        is_own = buffer.role in (Role.TEMP, Role.OUTPUT)
        return is_own and buffer not in self._unsettled and self._uses[buffer].last_read < end

    # What is known already.

    def block(self, statements: list[Statement]) -> None:
        """Rewrite the statements of a block."""
        end, recomputed = self._ends[id(statements)], self._function.recomputed
        found: list[Statement] = []
        # What a block computes may not be computed after it.
        undone: list[tuple[Hashable, _Known | None]] = []
        for statement in statements:
            now = self._now
            self._now += 1
            region = recomputed.get(statement, 0)
            given = statement
            if self.same and not self.same.keys().isdisjoint(reads(given)):
                statement = _redirected(given, self.same)
            inner = statement.blocks
            is_loop = isinstance(statement, (Loop, While))
            if is_loop:
                self._loop_ends.append(max(self._ends[id(block)] for block in inner))
            for block in inner:
                self.block(block)
            if is_loop:
                self._loop_ends.pop()
            known: dict[Buffer, Buffer] = {}
            for buffer, text in _parts(statement):
                if self._is_settled(buffer, end):
                    other = self._known_for(statement, buffer, (region, text), now, undone)
                    if other is not None:
                        known[buffer] = other
            if statement is not given and not self._dear.keys() >= self.same.keys():
                statement = _redirected(given, self._dear)
            found += self._without(statement, known) if known else [statement]
        statements[:] = found
        for whole, before in reversed(undone):
            if before is None:
                del self._known[whole]
            else:
                self._known[whole] = before

    def _known_for(
        self,
        statement: Statement,
        buffer: Buffer,
        text: Hashable,
        now: int,
        undone: list[tuple[Hashable, _Known | None]],
    ) -> Buffer | None:
        """Return the buffer that holds what a statement completes another one to, if any.

        Otherwise note what it completes, and in `undone` what was known instead.
        """
        parts = self._parts.get(buffer)
        if parts is None:
            parts = self._parts[buffer] = _Known(buffer, now, len(self._loop_ends))
        parts.texts.append(text)
        parts.is_dear |= _is_dear(statement)
        parts.operands.update(reads(statement))
        uses = self._uses[buffer]
        if now != uses.writes[-1] or len(parts.texts) != len(uses.writes):
            return None
        whole = tuple(parts.texts)
        known = self._known.get(whole)
        if known is not None and self._lasts(known, now):
            return known.buffer if self._may_keep(known.buffer, uses, now) else None
        undone.append((whole, known))
        self._known[whole] = parts
        return None

    def _lasts(self, known: _Known, now: int) -> bool:
        """Tell whether all that a value was computed from is unchanged now, and in all iterations
        of the loops that began in between."""
        depth = known.depth
        until = self._loop_ends[depth] if len(self._loop_ends) > depth else now
        for buffer in known.operands:
            use = self._uses[buffer]
            after = bisect_right(use.writes, known.first)
            if after < len(use.writes) and use.writes[after] < until:
                return False
        return True

    def _may_keep(self, buffer: Buffer, uses: _Uses, now: int) -> bool:
        """Tell whether a buffer may be live until another one is read last; note that it is."""
        own = self._uses[buffer]
        if own.last_read < now and buffer.role is not Role.OUTPUT:
            longer = estimate(buffer.nbytes)
            if longer > self._most_kept:
                return False
            self._most_kept -= longer
        own.last_read = max(own.last_read, uses.last_read)
        return True

    def _without(self, statement: Statement, known: dict[Buffer, Buffer]) -> list[Statement]:
        """Let later statements read known buffers; return what is left of what writes others."""
        results = [x for x in known if x.role is Role.OUTPUT]
        is_whole = isinstance(statement, Kernel) and known.keys() >= set(writes(statement))
        if results and not (is_whole and self._uses[results[0]].block == id(self._function.body)):
            # Fusion merges nests that compute the same for two results.
            for x in results:
                del known[x]
            results = []
        self.same.update(known)
        self._dear.update((x, y) for x, y in known.items() if self._parts[x].is_dear)
        if not results:
            return [statement]
        return [Copy(Place(known[x]), Place(x), x.size, statement.source) for x in results]


def _moving(same: Mapping[Buffer, Buffer]) -> Moving:
    return lambda buffer, index: (same.get(buffer, buffer), index)


def _redirected(statement: Statement, same: Mapping[Buffer, Buffer]) -> Statement:
    """Return a statement that reads other buffers."""
    move = _moving(same)

    def index(index: Index) -> Index:
        values = index.operands
        made = substituted(values, {}, {}, move)
        return index.replaced({}, dict(zip(values, made, strict=True)))

    def operand(place: Place) -> Place:
        return Place(*move(place.buffer, index(place.index)))

    def result(place: Place) -> Place:
        return Place(place.buffer, index(place.index))

    match statement:
        case Nest():
            return with_roots(statement, substituted(roots_of(statement), {}, {}, move))
        case Kernel():
            statement.operands = [operand(x) for x in statement.operands]
            statement.results = [result(x) for x in statement.results]
        case Copy():
            statement.operand = operand(statement.operand)
            statement.result = result(statement.result)
        case Branch():
            statement.number = operand(statement.number)
    return statement
