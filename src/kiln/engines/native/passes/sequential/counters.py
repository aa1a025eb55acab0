"""Counters of loops: a number that each iteration changes by the same amount is an index.

A carry of one integer, a constant before the loop, to which the last nest that touches it adds a
constant, is replaced by a linear function of the loop's axis wherever it is read, and set to its
last number after the loop. Comparisons and clamps that the range of the axis decides are decided,
so elements at computed places become elements at linear ones. A `While` whose condition compares
such a counter with a constant becomes a `Loop`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.loop_ir.addresses import position
from kiln.engines.native.loop_ir.buffers import everything, loads, reads, roots_of, writes
from kiln.engines.native.loop_ir.checks import has_checks
from kiln.engines.native.loop_ir.scalars import (
    NUMPY_TYPES,
    Value,
    is_float,
    number,
    postorder,
    rebuilt,
)
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
    Reduce,
    Role,
    Statement,
    Store,
    While,
    axis_index,
    walk,
)
from kiln.engines.native.loop_ir.substitution import moved, value_bounds
from kiln.engines.native.passes.dead import drop_unread
from kiln.engines.native.passes.rebuilding import with_roots

Known = Callable[[Buffer, Index], Index | None]
"""Tells which index an element of a buffer is, if it is known to be one."""


class _Counter(NamedTuple):
    """A cell that is `first` before a loop, and of which `nest` adds `step` at the end."""

    cell: Buffer
    first: int
    step: int
    nest: Nest

    def at(self, axis: Axis) -> Index:
        """Return its number in an iteration."""
        return axis_index(axis) * self.step + self.first


def count_by_axes(function: Function) -> None:
    """Replace counters by the axes of their loops."""
    loops = any(isinstance(statement, (Loop, While)) for statement in walk(function.body))
    # Checks tell in which iteration something happened.
    if loops and not has_checks(function.body):
        finder = _Counters(function)
        finder.block(function.body)
        if finder.found:
            _pass_on(function.body)
            drop_unread(function)


class _Counters:
    def __init__(self, function: Function) -> None:
        self.found = 0
        self._readers = Counter(b for each in walk(function.body) for b in set(reads(each)))
        self._loops = 0

    def block(self, statements: list[Statement]) -> None:
        """Replace the counters of all loops of a block, those of inner ones first."""
        place = 0
        while place < len(statements):
            statement = statements[place]
            for block in statement.blocks:
                self.block(block)
            if isinstance(statement, While):
                made = self._counted(statements, place, statement)
                if made is not None:
                    statement = statements[place] = made
                    self.found += 1
            if isinstance(statement, Loop) and not statement.parallel:
                after = self._without_counters(statements, place, statement)
                statements[place + 1 : place + 1] = after
                self.found += len(after)
                place += len(after)
            place += 1

    def _without_counters(
        self, statements: list[Statement], place: int, loop: Loop
    ) -> list[Statement]:
        """Replace the counters of a loop; return the statements that set their last numbers."""
        size = loop.axis.size
        if not isinstance(size, int):
            return []
        counters = [
            counter for counter in _counters(loop.body, statements[:place]) if _fits(counter, size)
        ]
        if not counters:
            return []
        indices = {each.cell: each.at(loop.axis) for each in counters}
        _replace(loop.body, indices)
        after: list[Statement] = []
        for each in counters:
            scope = each.nest.effects[0].value.scope
            last = scope.constant(each.first + each.step * size, each.cell.dtype)
            after.append(Nest((), [Store(each.cell, Index(), last)], source=loop.source))
        return after

    def _counted(self, statements: list[Statement], place: int, loop: While) -> Loop | None:
        """Return the `Loop` that a `While` is, if a counter decides how often it runs."""
        if len(loop.condition) != 1:
            return None
        (condition,) = loop.condition
        if not isinstance(condition, Nest) or len(condition.effects) != 1:
            return None
        (effect,) = condition.effects
        goes_on = effect.value
        if (
            not isinstance(effect, Store)
            or effect.mask is not None
            or effect.buffer is not loop.flag
            or loop.flag.role is not Role.TEMP
            or self._readers[loop.flag] != 1
            or goes_on.op not in ("lt", "le", "gt", "ge", "ne")
        ):
            return None
        for counter in _counters(loop.body, statements[:place]):
            times = _times(counter, goes_on)
            if times is not None and times > 1 and _fits(counter, times):
                self._loops += 1
                axis = Axis(f"w{self._loops}", times)
                return Loop(axis, loop.body, source=loop.source)
        return None


def _times(counter: _Counter, goes_on: Value) -> int | None:
    """Return how often a loop runs that goes on while a counter compares so with a constant."""
    op, (x, y) = goes_on.op, goes_on.operands
    if x.op == "constant":
        op, x, y = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(op, op), y, x
    if x.op != "load" or x.attr != (counter.cell, Index()) or y.op != "constant":
        return None
    end, step = int(number(y)), counter.step
    if op in ("gt", "ge"):
        op, step, first, end = {"gt": "lt", "ge": "le"}[op], -step, -counter.first, -end
    else:
        first = counter.first
    distance = end - first + (op == "le")
    if op == "ne":
        return distance // step if step and distance % step == 0 and distance // step > 0 else None
    return -(-distance // step) if step > 0 and distance > 0 else None


def _fits(counter: _Counter, times: int) -> bool:
    """Tell whether a counter does not wrap around in so many iterations."""
    last = counter.first + counter.step * times
    kind = NUMPY_TYPES[counter.cell.dtype]
    return _is_in(min(counter.first, last), max(counter.first, last), kind)


def _counters(body: Sequence[Statement], before: Sequence[Statement]) -> Iterator[_Counter]:
    """Iterate over the counters of a loop with this body, after these statements of its block."""
    for nest in body:
        if not isinstance(nest, Nest) or math.prod(a.size for a in nest.axes) != 1:
            continue
        for effect in nest.effects:
            cell = effect.buffer
            if (
                cell.size != 1
                or cell.dtype[0] not in "iu"
                or cell.dtype == "i1"
                or not isinstance(effect, Store)
                or effect.mask is not None
                or effect.index != Index()
            ):
                continue
            step = _step(cell, effect.value)
            if step is None or not _is_changed_last(cell, body, nest):
                continue
            first = _first(cell, before)
            if first is not None:
                yield _Counter(cell, first, step, nest)


def _step(cell: Buffer, value: Value) -> int | None:
    """Return what a value adds to the number in a cell, if that is a constant."""
    if value.op not in ("add", "sub"):
        return None
    x, y = value.operands
    if value.op == "add" and x.op == "constant":
        x, y = y, x
    if x.op != "load" or x.attr != (cell, Index()) or y.op != "constant":
        return None
    return int(number(y)) if value.op == "add" else -int(number(y))


def _is_changed_last(cell: Buffer, body: Sequence[Statement], nest: Nest) -> bool:
    """Tell whether one effect of this nest alone writes a cell, and others read it before."""
    is_after = False
    for statement in body:
        if statement is nest:
            is_after = True
            continue
        read, written = everything(statement)
        if cell in written or (is_after and cell in read):
            return False
    is_once = sum(effect.buffer is cell for effect in nest.effects) == 1
    return is_once and not any(_is_operand(cell, statement) for statement in walk(body))


def _is_operand(cell: Buffer, statement: Statement) -> bool:
    """Tell whether a statement reads a cell as memory, and not in an expression."""
    match statement:
        case Kernel():
            return any(place.buffer is cell for place in statement.operands)
        case Copy():
            return statement.operand.buffer is cell
        case Branch():
            return statement.number.buffer is cell
        case While():
            return statement.flag is cell
    return False


def _first(cell: Buffer, before: Sequence[Statement]) -> int | None:
    """Return the constant that a cell holds after statements."""
    for statement in reversed(before):
        if cell not in everything(statement)[1]:
            continue
        if not isinstance(statement, Nest):
            return None
        stores = [effect for effect in statement.effects if effect.buffer is cell]
        if len(stores) != 1 or not isinstance(stores[0], Store) or stores[0].mask is not None:
            return None
        value = stores[0].value
        return int(number(value)) if value.op == "constant" else None
    return None


# Rewriting.


def _replace(statements: list[Statement], indices: Mapping[Buffer, Index]) -> None:
    """Let statements use indices in place of the numbers in cells, which they no longer write."""
    kept: list[Statement] = []
    for statement in statements:
        for block in statement.blocks:
            _replace(block, indices)
        if not indices.keys().isdisjoint((*reads(statement), *writes(statement))):
            match statement:
                case Nest():
                    statement = _rewritten(statement, indices)
                    if not statement.effects:
                        continue
                case Kernel():
                    statement.operands = [_at(place, indices) for place in statement.operands]
                    statement.results = [_at(place, indices) for place in statement.results]
                case Copy():
                    statement.operand = _at(statement.operand, indices)
                    statement.result = _at(statement.result, indices)
                case Branch():
                    statement.number = _at(statement.number, indices)
        kept.append(statement)
    statements[:] = kept


def _rewritten(nest: Nest, indices: Mapping[Buffer, Index]) -> Nest:
    nest = Nest(
        nest.axes,
        [effect for effect in nest.effects if effect.buffer not in indices],
        ordered=nest.ordered,
        source=nest.source,
        lines=nest.lines,
    )
    return _with_indices(nest, lambda buffer, _: indices.get(buffer))


def _with_indices(nest: Nest, known: Known) -> Nest:
    """Return a nest that uses indices in place of the elements that are known to be some."""
    found = _simplified(roots_of(nest), known)
    made = with_roots(
        nest,
        [found[root] for root in roots_of(nest)],
        move=lambda buffer, index: (buffer, _linear(index)),
    )
    made.effects[:] = _unmasked(made.effects)
    return made


def _lookup(elements: Mapping[tuple[Buffer, Index], Index]) -> Known:
    return lambda buffer, index: elements.get((buffer, index))


def _pass_on(statements: list[Statement]) -> None:
    """Let nests use the indices that earlier ones of their block stored as elements."""
    elements: dict[tuple[Buffer, Index], Index] = {}
    for i, statement in enumerate(statements):
        for block in statement.blocks:
            _pass_on(block)
        stored: dict[tuple[Buffer, Index], Index] = {}
        if isinstance(statement, Nest):
            if any(x.attr in elements for x in loads(statement)):
                statement = _with_indices(statement, _lookup(elements))
                statements[i] = statement
            stored = dict(_stored_indices(statement))
        if elements or stored:
            written = everything(statement)[1]
            elements = {place: x for place, x in elements.items() if place[0] not in written}
            elements |= stored


def _stored_indices(nest: Nest) -> Iterator[tuple[tuple[Buffer, Index], Index]]:
    """Iterate over the elements that a nest of one point sets to indices."""
    if math.prod(axis.size for axis in nest.axes) != 1:
        return
    places = Counter((effect.buffer, effect.index) for effect in nest.effects)
    computed = {effect.buffer for effect in nest.effects if effect.index.terms}
    for effect in nest.effects:
        place = effect.buffer, effect.index
        if (
            isinstance(effect, Store)
            and effect.mask is None
            and effect.buffer not in computed
            and places[place] == 1
            and effect.value.op == "index"
            and not effect.value.operands
        ):
            yield place, effect.value.attr


def _unmasked(effects: Sequence[Store | Reduce]) -> Iterator[Store | Reduce]:
    """Iterate over effects without masks that always hold, and without those that never do."""
    for effect in effects:
        mask = effect.mask if isinstance(effect, Store) else None
        if mask is None or mask.op != "constant":
            yield effect
        elif mask.attr:
            yield Store(effect.buffer, effect.index, effect.value)


def _at(place: Place, indices: Mapping[Buffer, Index]) -> Place:
    values = place.index.operands
    if not values:
        return place
    found = _simplified(values, lambda buffer, _: indices.get(buffer))
    return Place(place.buffer, _linear(place.index.replaced({}, found)))


def _linear(index: Index) -> Index:
    """Return an index with the terms of the values that are linear themselves."""
    made = Index(index.const)
    for term, factor in index.terms:
        if isinstance(term, Value) and term.op == "index":
            made += _linear(term.attr) * factor
        else:
            made += Index(0, ((term, factor),))
    return made


def _simplified(roots: Sequence[Value], known: Known) -> dict[Value, Value]:
    """Return expressions in which indices replace the elements that are known to be some."""
    found: dict[Value, Value] = {}
    for x in postorder(roots):
        if x.op == "load" and (index := known(*x.attr)) is not None:
            found[x] = position(x.scope, index, x.dtype)
        elif x.op == "load":
            found[x] = moved(x, {}, found, lambda buffer, index: (buffer, _linear(index)))
        elif x.op == "index":
            found[x] = position(x.scope, _linear(x.attr.replaced({}, found)), x.dtype)
        else:
            found[x] = _decided(rebuilt(x, tuple([found[y] for y in x.operands])))
    return found


def _decided(x: Value) -> Value:
    """Return what a node is for all numbers that its operands can be, or the node."""
    if not x.operands or any(y.dtype[0] not in "iu" for y in x.operands):
        return x
    if x.op in ("lt", "le", "gt", "ge", "eq", "ne"):
        holds = _compared(x.op, *map(_range, x.operands))
        return x if holds is None else x.scope.constant(holds, "i1")
    if is_float(x.dtype) or x.dtype == "i1":
        return x
    if x.op in ("min", "max"):
        a, b = x.operands
        if _compared("le", _range(a), _range(b)):
            return a if x.op == "min" else b
        if _compared("ge", _range(a), _range(b)):
            return b if x.op == "min" else a
        return x
    return _as_index(x) or x


def _as_index(x: Value) -> Value | None:
    """Return the index that a sum, a multiple or a conversion of indices is, if it cannot wrap."""
    parts = [index for index in map(_index_of, x.operands) if index is not None]
    if len(parts) < len(x.operands) or not any(index.terms for index in parts):
        return None
    first, second = parts[0], parts[-1]
    if x.op == "convert":
        made = first
    elif x.op == "add":
        made = first + second
    elif x.op == "sub":
        made = first + second * -1
    elif x.op == "mul" and not (first.terms and second.terms):
        made = first * second.const if first.terms else second * first.const
    else:
        return None
    candidate = position(x.scope, made, x.dtype)
    known = _range(candidate)
    if known is None or not _is_in(*known, NUMPY_TYPES[x.dtype]):
        return None
    return candidate


def _index_of(x: Value) -> Index | None:
    if x.op == "constant":
        return Index(int(number(x)))
    found: Index | None = x.attr if x.op == "index" else None
    return found


def _range(x: Value) -> tuple[int, int] | None:
    low, high = value_bounds(x)
    return (low, high) if isinstance(low, int) and isinstance(high, int) else None


def _compared(op: str, x: tuple[int, int] | None, y: tuple[int, int] | None) -> bool | None:
    """Return whether a comparison of two ranges holds for all numbers, or for none."""
    if x is None or y is None:
        return None
    (a, b), (c, d) = x, y
    match op:
        case "lt":
            return True if b < c else False if a >= d else None
        case "le":
            return True if b <= c else False if a > d else None
        case "gt":
            return _compared("lt", y, x)
        case "ge":
            return _compared("le", y, x)
        case _:
            if b < c or a > d:
                return op == "ne"
            return op == "eq" if a == b == c == d else None


def _is_in(low: int, high: int, kind: np.dtype[Any]) -> bool:
    limits = np.iinfo(kind)
    return bool(limits.min <= low and high <= limits.max)
