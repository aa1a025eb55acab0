"""Sequential loops over elementwise bodies run block by block, each block in registers.

A loop whose iterations compute each element of some arrays from the same element alone, as iterated
maps and steps of differential equations do, runs all its iterations for one block of elements
before it begins the next one. The blocks are divided among threads, and their elements stay in
registers. Every element is computed by the same operations in the same order.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kiln.engines.native.loop_ir.buffers import nodes, reads, roots_of, writes
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, Scope, Value, cost
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
    axis_index,
    load,
    walk,
)
from kiln.engines.native.loop_ir.substitution import substituted

FEWEST_ITERATIONS = 4
FEWEST_BLOCKS = 2
BLOCK_BYTES = 256
"""The elements of an array in a block: four of the widest vectors, whose latencies overlap."""
ALONE_BYTES = 512
"""The elements of the only array: its operations wait for one another, so more overlap."""
MOST_BLOCK_BYTES = 1024
"""What the arrays of a block may take together; the rest of the registers is for temporaries."""
MOST_COST = 120
"""Dearer bodies compute for so long that memory is not the bottleneck."""
MOST_PARTS = 2
"""How many elements of a buffer belong to one point: the parts of a complex number."""

Element = tuple[Buffer, int]
"""A buffer, and which part of its elements."""
Body = Callable[[list[Statement]], list[Statement]]


def interchange(function: Function) -> None:
    """Run loops over elementwise bodies block by block."""
    if function.sites or not any(each.blocks for each in function.body):
        return
    uses = Counter(_reads(function.body))
    uses.update(function.outputs)
    in_rows: set[Buffer] = set()
    _in_block(function.body, uses, set(), in_rows)
    # Their copies were nests, which now compute rows.
    function.copies[:] = [each for each in function.copies if each.to not in in_rows]


def _in_block(
    statements: list[Statement],
    uses: Counter[Buffer],
    written: set[Buffer],
    in_rows: set[Buffer],
) -> None:
    """Interchange the loops of a block, before which some buffers are written."""
    found: list[Statement] = []
    for statement in statements:
        defined = frozenset(written) if isinstance(statement, While) else frozenset()
        written.update(writes(statement))
        if isinstance(statement, Loop) and statement.parallel:
            found.append(statement)
            written.update(itertools.chain(*map(writes, walk(statement.body))))
            continue
        for block in statement.blocks:
            _in_block(block, uses, written, in_rows)
        plan = _Plan(statement, uses, defined) if isinstance(statement, (Loop, While)) else None
        if plan is not None and plan.is_possible:
            plan.take_initial(found)
            blocks = plan.blocks()
            # What only this loop read, and now reads in rows, later loops need not keep.
            uses.subtract(_reads([*plan.initial, plan.loop]))
            uses.update(_reads(blocks))
            found += blocks
            made = {element for nest in plan.initial for element in _made(nest)}
            in_rows |= {b for b, _ in made} - {
                b for b, part in plan.carried if (b, part) not in made
            }
        else:
            found.append(statement)
    statements[:] = found


def _reads(statements: Sequence[Statement]) -> Iterator[Buffer]:
    """Iterate over the buffers that each of some statements, and of those inside, reads."""
    for statement in walk(statements):
        yield from set(reads(statement))


class _Plan:
    """What the nests of a loop access, and whether its elements are independent."""

    def __init__(
        self, loop: Loop | While, uses: Counter[Buffer], defined: frozenset[Buffer]
    ) -> None:
        self.loop = loop
        self.uses = uses
        self.defined = defined
        self.axis = loop.axis if isinstance(loop, Loop) else None
        self.length = 0
        self.parts: dict[Buffer, int] = {}
        """The arrays that the loop writes, with the number of elements of a point."""
        self.scalars: dict[Buffer, None] = {}
        """The numbers that the loop writes; each block computes them itself."""
        self.carried: dict[Element, None] = {}
        """Elements that are read before they are written."""
        self.written: dict[Element, None] = {}
        self.strided: dict[Element, None] = {}
        """Parts of complex numbers that are only read: their block is read once."""
        self.initial: list[Nest] = []
        self.is_possible = self._is_elementwise() and self._pays()

    # Requirements.

    def _is_elementwise(self) -> bool:
        loop = self.loop
        every = [each for block in loop.blocks for each in block]
        nests = [each for each in every if isinstance(each, Nest)]
        if len(nests) < len(every) or any(nest.ordered or is_named(nest.points) for nest in nests):
            return False
        lengths = {int(nest.points) for nest in nests if nest.points != 1}
        if len(lengths) != 1 or any(len(_axes(nest)) > 1 for nest in nests):
            return False
        (self.length,) = lengths
        if isinstance(loop, While) and any(map(_axes, _nests(loop.condition))):
            if not self._stops_by_element(loop):
                return False
            nests = _nests(loop.body)
        return all(map(self._writes, nests)) and all(map(self._reads, nests))

    def _stops_by_element(self, loop: While) -> bool:
        """Tell whether a loop runs until a condition holds for no element, changing no other.

        It may then stop earlier for each block: further iterations would keep its elements.
        """
        if len(loop.condition) != 1 or not all(map(_axes, _nests(loop.body))):
            return False
        (nest,) = _nests(loop.condition)
        (effect,) = nest.effects if len(nest.effects) == 1 else (None,)
        if not isinstance(effect, Reduce) or effect.op != "or" or effect.buffer is not loop.flag:
            return False
        changed = {b for each in loop.body for b in writes(each)}
        if self.uses[loop.flag] != 1 or len(loop.body) != 1:
            return False
        (body,) = _nests(loop.body)
        mine, others = _axes(nest), _axes(body)
        (goes_on,) = substituted([effect.value], {mine[0]: axis_index(others[0])}, {})
        for store in body.effects:
            value = store.value
            if value.op != "select" or value.operands[0] is not goes_on:
                return False
            kept = value.operands[2]
            if kept.op != "load" or kept.attr != (store.buffer, store.index):
                return False
        return all(b in changed for b in reads(nest))

    def _writes(self, nest: Nest) -> bool:
        """Record what a nest writes; tell whether it is its own elements, or a number."""
        for effect in nest.effects:
            buffer = effect.buffer
            if not isinstance(effect, Store) or effect.mask is not None:
                return False
            if buffer.role not in (Role.TEMP, Role.OUTPUT):
                return False
            if not _axes(nest):
                if buffer.size != 1 or effect.index.terms:
                    return False
                self.scalars[buffer] = None
                continue
            own = _own(effect.index, nest)
            if own is None or self.parts.setdefault(buffer, own[0]) != own[0]:
                return False
        return self.scalars.keys().isdisjoint(self.parts)

    def _reads(self, nest: Nest) -> bool:
        """Record what a nest reads; tell whether it is its own elements, or does not change."""
        wide = bool(_axes(nest))
        for x in nodes(nest):
            if x.op != "load":
                continue
            buffer, index = x.attr
            if len(x.operands) != len(index.operands):
                return False
            own = _own(index, nest) if wide else None
            if buffer in self.parts:
                if own is None or own[0] != self.parts[buffer]:
                    return False
                if (buffer, own[1]) not in self.written:
                    self.carried[buffer, own[1]] = None
            elif buffer in self.scalars:
                if index.terms or index.const != 0:
                    return False
            elif wide and self.axis is not None and index.factor(self.axis) != 0:
                # Rows that follow one another in memory are better read one by one.
                if any(axis in nest.axes for axis, _ in index.axes()):
                    return False
            elif own is not None and own[0] > 1:
                self.strided[buffer, own[1]] = None
        for effect in nest.effects:
            own = _own(effect.index, nest) if wide else None
            if own is not None:
                self.written[effect.buffer, own[1]] = None
        return True

    def _pays(self) -> bool:
        if self.axis is not None and (
            is_named(self.axis.size) or int(self.axis.size) < FEWEST_ITERATIONS
        ):
            return False
        every = [each for block in self.loop.blocks for each in _nests(block)]
        if sum(cost(x) for nest in every for x in nodes(nest)) > MOST_COST:
            return False
        sizes = [NUMPY_TYPES[b.dtype].itemsize for b, _ in self._elements()]
        self.width = BLOCK_BYTES // max(sizes)
        if len(sizes) == 1 and self.length >= FEWEST_BLOCKS * (ALONE_BYTES // sizes[0]):
            self.width = ALONE_BYTES // sizes[0]
        while self.width * sum(sizes) > MOST_BLOCK_BYTES and self.width > 8:
            self.width //= 2
        fits = self.width * sum(sizes) <= MOST_BLOCK_BYTES
        return fits and self.length >= FEWEST_BLOCKS * self.width

    def _elements(self) -> list[Element]:
        return list({**self.carried, **self.written, **self.strided})

    # Changing.

    def take_initial(self, before: list[Statement]) -> None:
        """Remove the nests before the loop that compute the first elements of what it carries."""
        for at in range(len(before) - 1, -1, -1):
            nest = before[at]
            if not isinstance(nest, Nest) or nest.ordered or not nest.is_map:
                break
            read, made = set(reads(nest)), set(writes(nest))
            if not _axes(nest):
                if not made <= self.scalars.keys() or read & self.parts.keys():
                    break
                continue
            if not self._is_initial(nest) or any(made & set(reads(each)) for each in self.initial):
                break
            if read & (self.parts.keys() | self.scalars.keys()):
                break
            self.initial.insert(0, nest)
        before[:] = [each for each in before if each not in self.initial]

    def _is_initial(self, nest: Nest) -> bool:
        """Tell whether a nest computes what the loop then overwrites, each element once."""
        if is_named(nest.points) or nest.points != self.length or len(_axes(nest)) != 1:
            return False
        known = [element for each in self.initial for element in _made(each)]
        for effect in nest.effects:
            own = _own(effect.index, nest)
            if own is None or not isinstance(effect, Store) or effect.mask is not None:
                return False
            if own[0] != self.parts.get(effect.buffer):
                return False
            element = effect.buffer, own[1]
            # What the loop does not write has to be in memory after it.
            if element not in self.written or element in known:
                return False
        return all(len(x.operands) == len(x.attr[1].operands) for x in _loads(nest))

    def blocks(self) -> list[Statement]:
        """Return the loops over blocks, and the loop that computes the numbers."""
        found: list[Statement] = []
        count, rest = divmod(self.length, self.width)
        source = self.loop.source
        block = Axis("b", count)
        found.append(
            Loop(
                block,
                self._block(axis_index(block) * self.width, self.width),
                parallel=True,
                source=source,
            )
        )
        if rest:
            last = Index(count * self.width)
            found.append(Loop(Axis("b", 1), self._block(last, rest), parallel=True, source=source))
        if self.scalars:
            found.append(self._rebuilt(self.loop, self._numbers))
        return found

    def _numbers(self, statements: list[Statement]) -> list[Statement]:
        return [each for each in _nests(statements) if not _axes(each)]

    def _block(self, first: Index, width: int) -> list[Statement]:
        """Return the statements that run all iterations for some elements."""
        code = _Block(self, first, width)
        return [*code.before(), self._rebuilt(self.loop, code.nests, code), *code.after()]

    def _rebuilt(self, loop: Loop | While, body: Body, code: _Block | None = None) -> Loop | While:
        if isinstance(loop, Loop):
            return Loop(loop.axis, body(loop.body), source=loop.source)
        flag = loop.flag if code is None else code.scalars[loop.flag]
        return While(body(loop.condition), flag, body(loop.body), loop.source)


class _Block:
    """The nests of a loop for one block of elements, which are in rows."""

    def __init__(self, plan: _Plan, first: Index, width: int) -> None:
        self.plan = plan
        self.first = first
        self.width = width
        self.rows = {
            (b, part): Buffer(f"{b.name}r{part}", b.dtype, width, Role.ROW)
            for b, part in plan._elements()
        }
        names = dict(plan.scalars)
        if isinstance(plan.loop, While):
            names[plan.loop.flag] = None
        self.scalars = {b: Buffer(f"{b.name}r", b.dtype, 1, Role.ROW) for b in names}
        self.made = {element for nest in plan.initial for element in _made(nest)}
        self.read_first = {b for b in names if self._is_read_first(b)}
        self.results = self._results()
        """What something after the loop reads."""

    def _is_read_first(self, buffer: Buffer) -> bool:
        """Tell whether an iteration reads a number before it writes it."""
        for each in itertools.chain(*self.plan.loop.blocks):
            if buffer in set(reads(each)):
                return True
            if buffer in set(writes(each)):
                return False
        return False

    def _results(self) -> dict[Element, None]:
        plan = self.plan
        inside = Counter(_reads(list(itertools.chain(*plan.loop.blocks))))
        return {(b, part): None for b, part in plan.written if plan.uses[b] > inside[b]}

    def nests(self, statements: list[Statement]) -> list[Statement]:
        """Return nests over the block instead of all elements."""
        return [self.nest(each) for each in _nests(statements)]

    def nest(self, nest: Nest) -> Nest:
        """Return a nest over the block instead of all elements."""
        axes = _axes(nest)
        own = Axis("j", self.width)
        place = {axes[0]: self.first + axis_index(own)} if axes else {}
        known: dict[Value, Value] = {}
        for x in _loads(nest):
            buffer, index = x.attr
            if buffer in self.scalars:
                known[x] = load(x.scope, self.scalars[buffer], Index())
            elif axes:
                mine = _own(index, nest)
                if mine is not None and (buffer, mine[1]) in self.rows:
                    known[x] = load(x.scope, self.rows[buffer, mine[1]], axis_index(own))
        effects: list[Store | Reduce] = []
        values = iter(substituted(roots_of(nest), place, known))
        for effect in nest.effects:
            value = next(values)
            if effect.buffer in self.scalars:
                to, index = self.scalars[effect.buffer], Index()
            else:
                mine = _own(effect.index, nest)
                assert mine is not None
                to, index = self.rows[effect.buffer, mine[1]], axis_index(own)
            if isinstance(effect, Store):
                effects.append(Store(to, index, value))
            else:
                effects.append(Reduce(to, index, effect.op, value))
        return Nest([own] if axes else (), effects, source=nest.source, lines=nest.lines)

    def before(self) -> Iterator[Nest]:
        """Read the block, or compute its first elements."""
        plan = self.plan
        for scalar in self.read_first:
            x = load(self._scope(), scalar, Index())
            yield Nest((), [Store(self.scalars[scalar], Index(), x)], source=plan.loop.source)
        needed = {**plan.carried, **plan.strided}
        if isinstance(plan.loop, While):
            # It may not run, and then they are written as they were.
            needed.update({e: None for e in self.results if e[0] in plan.defined})
        yield from self._moved([e for e in needed if e not in self.made], to_rows=True)
        # After the parts of what is only read, which they may read too.
        for nest in plan.initial:
            yield self.nest(nest)

    def after(self) -> Iterator[Nest]:
        """Write the block where something else reads it, or this loop when it runs again."""
        again = {b for b, part in self.plan.carried if (b, part) not in self.made}
        needed = [e for e in self.plan.written if e in self.results or e[0] in again]
        yield from self._moved(needed, to_rows=False)

    def _moved(self, elements: Sequence[Element], *, to_rows: bool) -> Iterator[Nest]:
        if not elements:
            return
        own = Axis("j", self.width)
        effects = []
        for buffer, part in elements:
            factor = self.plan.parts.get(buffer, MOST_PARTS)
            place = (self.first + axis_index(own)) * factor + part
            row, at = self.rows[buffer, part], axis_index(own)
            if to_rows:
                effects.append(Store(row, at, load(self._scope(), buffer, place)))
            else:
                effects.append(Store(buffer, place, load(self._scope(), row, at)))
        yield Nest([own], effects, source=self.plan.loop.source)

    def _scope(self) -> Scope:
        (nest, *_) = _nests(self.plan.loop.body)
        return nest.effects[0].value.scope


def _axes(nest: Statement) -> list[Axis]:
    return [axis for axis in nest.axes if axis.size != 1] if isinstance(nest, Nest) else []


def _nests(statements: Sequence[Statement]) -> list[Nest]:
    return [each for each in statements if isinstance(each, Nest)]


def _loads(nest: Nest) -> list[Value]:
    return [x for x in nodes(nest) if x.op == "load"]


def _made(nest: Nest) -> list[Element]:
    """Return the elements that a nest writes at each point."""
    found = [(effect.buffer, _own(effect.index, nest)) for effect in nest.effects]
    return [(buffer, own[1]) for buffer, own in found if own is not None]


def _own(index: Index, nest: Nest) -> tuple[int, int] | None:
    """Return the number of elements of a point and which one an index is; None if others' too."""
    if len(index.terms) != 1 or index.const.__class__ is not int:
        return None
    ((term, factor),) = index.terms
    if term not in nest.axes or factor.__class__ is not int:
        return None
    if not 1 <= factor <= MOST_PARTS or not 0 <= index.const < factor:
        return None
    return int(factor), int(index.const)
