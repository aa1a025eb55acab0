"""Copy elision: two buffers, one a copy of the other, share memory.

Loop carries, the results of branches, and partially updated values start as copies. Two buffers,
one copied to the other, are merged if neither is written while the other is live; a nest may write
one of them while it reads the other if each of its points reads only the element that it writes.
Each remaining copy is recorded with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.loop_ir.buffers import is_whole, nodes, reads, writes
from kiln.engines.native.loop_ir.extents import at_least, estimate
from kiln.engines.native.loop_ir.scalars import postorder
from kiln.engines.native.loop_ir.statements import (
    Branch,
    Buffer,
    Copy,
    Function,
    Index,
    KeptCopy,
    Kernel,
    Loop,
    Nest,
    Place,
    Reduce,
    Role,
    Statement,
    Store,
    While,
    load,
)
from kiln.engines.native.loop_ir.substitution import Moving, substituted
from kiln.engines.native.passes.fusion import is_in_place
from kiln.engines.native.passes.liveness import Liveness, is_covered
from kiln.engines.native.passes.rebuilding import with_places

SMALL_PART = 4
"""A nest that changes at most this fraction of a buffer may be split to avoid the copy."""


def remove_copies(function: Function) -> None:
    """Let buffers share memory instead of being copied; record the copies that remain."""
    function.copies.clear()
    found = _copies(function)
    if not found:
        return
    classes = _Classes(function, found)
    for copy in sorted(found, key=lambda each: (-each.depth, -estimate(each.to.nbytes))):
        classes.join(copy)
    chosen = classes.chosen()
    if classes.divided:
        _divide(function.body, classes.divided)
    if chosen:
        rename(function.body, chosen)
    for copy in found:
        reason = classes.reasons.get((copy.statement, copy.to))
        if reason is not None:
            to = chosen.get(copy.to, copy.to)
            function.copies.append(KeptCopy(to, reason, copy.statement.source))


def remove_remaining_copies(function: Function) -> None:
    """Try again for the copies that remained, after the nests inside loops have been merged.

    What two nests made one after the other, a nest of one point makes at once: it reads the old
    elements of all carries before it writes a new one.
    """
    if function.copies:
        remove_copies(function)


class _WholeCopy(NamedTuple):
    """A statement that copies all elements of one buffer to another."""

    statement: Nest | Copy
    to: Buffer
    of: Buffer
    depth: int


def _copies(function: Function) -> list[_WholeCopy]:
    found: list[_WholeCopy] = []
    waiting = [(statement, 0) for statement in reversed(function.body)]
    while waiting:
        statement, depth = waiting.pop()
        match statement:
            case Copy():
                of, to = statement.operand.buffer, statement.result.buffer
                if is_whole(statement) and of is not to:
                    found.append(_WholeCopy(statement, to, of, depth))
            case Nest():
                for result, source in _copied(statement).items():
                    found.append(_WholeCopy(statement, result, source, depth))
        inner = depth + isinstance(statement, (Loop, While))
        for block in reversed(statement.blocks):
            waiting += [(each, inner) for each in reversed(block)]
    return found


def _are_alike(x: Buffer, y: Buffer) -> bool:
    return x is not y and x.size == y.size and x.dtype == y.dtype


def _copied(nest: Nest) -> dict[Buffer, Buffer]:
    """Return the buffers that a nest makes equal to another; it may write only a part."""
    found: dict[Buffer, Buffer | None] = {}
    for effect in nest.effects:
        of = None if nest.ordered else _plain_load(effect)
        to = effect.buffer
        if of is None or not _are_alike(to, of) or found.get(to, of) is not of:
            of = None
        found[to] = of
    return {to: of for to, of in found.items() if of is not None}


def _plain_load(effect: Store | Reduce) -> Buffer | None:
    """Return the buffer from which an effect copies an element to the same index of another."""
    value = effect.value
    if not isinstance(effect, Store) or effect.mask is not None or value.op != "load":
        return None
    buffer, index = value.attr
    if index != effect.index or index.operands:
        return None
    found: Buffer = buffer
    return found


class _Class:
    """Buffers that share the memory of `home`, and the statements that write it."""

    __slots__ = ("has_output", "home", "members", "roles", "writers")

    def __init__(self, x: Buffer, writers: Sequence[Statement], *, has_output: bool) -> None:
        self.home = x
        self.members = {x}
        self.writers = dict.fromkeys(writers)
        self.has_output = has_output
        self.roles = {x.role}


def _together(to: _Class, of: _Class) -> _Class:
    """Return one of two classes, to which the other one was added."""
    made, less = (to, of) if len(to.members) >= len(of.members) else (of, to)
    made.home = of.home if of.has_output else to.home
    made.has_output |= less.has_output
    made.members |= less.members
    made.writers |= less.writers
    made.roles |= less.roles
    return made


class _Classes:
    """Buffers that share memory.

    A class may have as many members as a program has updates, so a union does work only for the
    members of the smaller class.
    """

    def __init__(self, function: Function, copies: Sequence[_WholeCopy]) -> None:
        outputs = set(function.outputs)
        concerned = {x for each in copies for x in (each.to, each.of)}
        self.liveness = Liveness(function, concerned)
        self.reasons: dict[tuple[Statement, Buffer], str] = {}
        self.divided: set[Nest] = set()
        """Nests that must compute everything before they store any of it."""
        self._sources: dict[tuple[Statement, Buffer], Buffer] = {
            (each.statement, each.to): each.of for each in copies
        }
        writers: dict[Buffer, list[Statement]] = {x: [] for x in concerned}
        self._needed: dict[Buffer, list[Statement]] = {x: [] for x in concerned}
        """The statements that read a buffer, or after which its elements are needed."""
        for statement, after in self.liveness.after.items():
            for x in concerned.intersection(writes(statement)):
                writers[x].append(statement)
            for x in concerned & (after | set(reads(statement))):
                self._needed[x].append(statement)
        self._classes = {x: _Class(x, writers[x], has_output=x in outputs) for x in concerned}

    def join(self, copy: _WholeCopy) -> None:
        """Let both buffers of a copy share memory, or record why they cannot."""
        to, of = self._classes[copy.to], self._classes[copy.of]
        if to is of:
            return
        divided: set[Nest] = set()
        reason = self._refused(copy, to, of, divided)
        if reason is not None:
            self.reasons[copy.statement, copy.to] = reason
            return
        self.divided |= divided
        made = _together(to, of)
        for each in (of if made is to else to).members:
            self._classes[each] = made

    def chosen(self) -> dict[Buffer, Buffer]:
        """Return the buffer that replaces each of several."""
        return {x: c.home for x, c in self._classes.items() if x is not c.home}

    def _refused(self, copy: _WholeCopy, to: _Class, of: _Class, divided: set[Nest]) -> str | None:
        roles = to.roles | of.roles
        if copy.of in set(writes(copy.statement)):
            return "buffers exchange their values"
        if Role.INPUT in roles:
            return "an input is never written"
        if Role.CONST in roles:
            return "a constant is never written"
        if Role.ROW in roles:
            return "a row belongs to one iteration of a loop"
        if to.has_output and of.has_output:
            return "both are results"
        if not is_covered(self.liveness.written(copy.statement).get(copy.to, ()), copy.to.size):
            return "only a part is copied"
        return self._conflict(to, of, divided) or self._conflict(of, to, divided)

    def _conflict(self, written: _Class, kept: _Class, divided: set[Nest]) -> str | None:
        """Return why some buffers cannot share the memory of others, if they cannot.

        Add the nests that would have to be split.
        """
        for statement in self._critical(written, kept):
            own = set(writes(statement))
            after = self.liveness.after[statement]
            for buffer in own:
                if buffer not in written.members:
                    continue
                source = self._sources.get((statement, buffer))
                is_same = source in written.members or source in kept.members
                if is_same and source not in own:
                    continue
                if not kept.members.isdisjoint(after):
                    return "the old value is needed after the new one is computed"
                read = kept.members.intersection(reads(statement))
                if all(_reads_in_place(statement, x, buffer) for x in read):
                    continue
                if isinstance(statement, Nest) and _may_be_divided(statement, written, kept):
                    divided.add(statement)
                else:
                    return "other elements of the old value are read where the new one is computed"
        return None

    def _critical(self, written: _Class, kept: _Class) -> Sequence[Statement]:
        """Return the statements that write one class while the other is read or live."""
        if len(kept.members) > len(written.writers):
            return list(written.writers)
        needed = dict.fromkeys([s for x in kept.members for s in self._needed[x]])
        return [statement for statement in needed if statement in written.writers]


def _reads_in_place(statement: Statement, read: Buffer, written: Buffer) -> bool:
    """Tell whether a statement can write a buffer in place of one that it reads."""
    if not isinstance(statement, Nest):
        return read not in set(reads(statement))
    return all(
        is_in_place(x.attr[1], written, statement)
        for x in nodes(statement)
        if x.op == "load" and x.attr[0] is read
    )


# Splitting.


def _may_be_divided(nest: Nest, *shared: _Class) -> bool:
    """Tell whether a nest that changes a small part of a buffer may use a temporary for it."""
    largest = max((effect.buffer.size for effect in nest.effects), key=estimate)
    if not nest.is_map or not at_least(largest, nest.points * SMALL_PART):
        return False
    # In sequence, points may read what an earlier one has stored.
    if nest.ordered and not set(reads(nest)).isdisjoint(writes(nest)):
        return False
    places = [value for effect in nest.effects for value in effect.index.operands]
    places += [e.mask for e in nest.effects if isinstance(e, Store) and e.mask is not None]
    read = {x.attr[0] for x in postorder(places) if x.op == "load"}
    return not any(x in each.members for each in shared for x in read)


def _divide(statements: list[Statement], divided: set[Nest]) -> None:
    found: list[Statement] = []
    for statement in statements:
        for block in statement.blocks:
            _divide(block, divided)
        if isinstance(statement, Nest) and statement in divided:
            found += _computed_apart(statement)
        else:
            found.append(statement)
    statements[:] = found


def _computed_apart(nest: Nest) -> list[Nest]:
    """Return the nest that computes the values of another, and the one that stores them."""
    terms, points = [], 1
    for axis in reversed(nest.axes):
        if axis.size != 1:
            terms.append((axis, points))
        points *= axis.size
    index = Index(0, terms)
    before: list[Store] = []
    after: list[Store] = []
    for i, effect in enumerate(nest.effects):
        assert isinstance(effect, Store)
        value = effect.value
        part = Buffer(f"{effect.buffer.name}p{i}", value.dtype, points, Role.TEMP)
        before.append(Store(part, index, value))
        after.append(
            Store(effect.buffer, effect.index, load(value.scope, part, index), effect.mask)
        )
    return [
        Nest(nest.axes, before, source=nest.source),
        Nest(nest.axes, after, ordered=nest.ordered, source=nest.source),
    ]


# Renaming.


def rename(statements: list[Statement], chosen: Mapping[Buffer, Buffer]) -> None:
    """Let statements use other buffers; drop those that copy a buffer to itself."""
    kept: list[Statement] = []
    for statement in statements:
        match statement:
            case Nest():
                statement = _renamed_nest(statement, chosen)
                if not statement.effects:
                    continue
            case Copy():
                statement.operand = _renamed(statement.operand, chosen)
                statement.result = _renamed(statement.result, chosen)
                of, to = statement.operand, statement.result
                if of.buffer is to.buffer and of.index == to.index:
                    continue
            case Kernel():
                statement.operands = [_renamed(x, chosen) for x in statement.operands]
                statement.results = [_renamed(x, chosen) for x in statement.results]
            case Branch():
                statement.number = _renamed(statement.number, chosen)
            case While():
                statement.flag = chosen.get(statement.flag, statement.flag)
        for block in statement.blocks:
            rename(block, chosen)
        kept.append(statement)
    statements[:] = kept


def _renamed(place: Place, chosen: Mapping[Buffer, Buffer]) -> Place:
    move = _move(chosen)
    values = place.index.operands
    made = dict(zip(values, substituted(values, {}, {}, move), strict=True))
    return Place(*move(place.buffer, place.index.replaced({}, made)))


def _renamed_nest(nest: Nest, chosen: Mapping[Buffer, Buffer]) -> Nest:
    made = with_places(nest, nest.axes, _move(chosen))
    made.effects[:] = [effect for effect in made.effects if not _changes_nothing(effect)]
    return made


def _move(chosen: Mapping[Buffer, Buffer]) -> Moving:
    return lambda buffer, index: (chosen.get(buffer, buffer), index)


def _changes_nothing(effect: Store | Reduce) -> bool:
    value = effect.value
    is_load = isinstance(effect, Store) and value.op == "load"
    return is_load and value.attr == (effect.buffer, effect.index)
