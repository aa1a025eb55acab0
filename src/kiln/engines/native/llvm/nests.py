"""A loop nest as LLVM IR: the order of its axes, vectors, and where each value is computed.

Kept axes come before reduced ones, and one axis is vectorized. A value is computed in the outermost
loop that has all axes on which it depends. The remainder of the vectorized axis is one more, masked
vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kiln.engines.native.llvm import strided, vector_calls
from kiln.engines.native.llvm.accumulators import Accumulator
from kiln.engines.native.llvm.addresses import (
    ALL_LANES,
    Pointer,
    first_lanes,
    iota,
    without_constant,
)
from kiln.engines.native.llvm.values import Elementary, Frame, only_in_rare
from kiln.engines.native.llvm.watch import Watch
from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.loop_ir.buffers import nodes, roots_of
from kiln.engines.native.loop_ir.extents import at_least, is_named
from kiln.engines.native.loop_ir.scalars import Value, cost
from kiln.engines.native.loop_ir.statements import Axis, Buffer, Index, Nest, Reduce, Store
from kiln.engines.native.passes.schedule import Schedule

UNROLLED = 24
"""A loop is unrolled completely if its iterations have no more instructions than this, roughly."""
ALWAYS = math.inf
"""Loops over what is promoted to registers always are: registers have no addresses."""


class NestCode(Frame):
    """Emits one nest into the current function."""

    def __init__(
        self,
        w: Writer,
        nest: Nest,
        schedule: Schedule,
        pointer: Pointer,
        outer: dict[Axis, str],
        elementary: Elementary,
        watch: Watch | None = None,
        most_unrolled: float = UNROLLED,
    ) -> None:
        order, vector, kept = schedule.order, schedule.vector, schedule.kept
        # An axis of one vector is not a loop, so values that depend only on it are computed first.
        size = vector.size if vector is not None and vector in order[1:kept] else 0
        self.is_row = size != 0 and not is_named(size) and at_least(schedule.width, size)
        if self.is_row:
            order, kept = tuple(axis for axis in order if axis is not vector), kept - 1
        super().__init__(w, pointer, dict(outer), order, vector, schedule.width, elementary, watch)
        self.nest = nest
        self.schedule = schedule
        self.most_unrolled = most_unrolled
        self.first_reduced = kept
        self.ranges: dict[Axis, tuple[str, str]] = {}
        self._plan_values()

    def scalar(self, index: Index) -> str:
        """Return the register of an index whose terms are all available here."""
        for x in self.levels[0]:
            self.compute(x)
        return self.offset(index)

    # Planning.

    def _plan_values(self) -> None:
        """Decide in which loop each value is computed, and which values are vectors."""
        places = {axis: depth for depth, axis in enumerate(self.order, 1)}
        written = {effect.buffer for effect in self.nest.effects}
        innermost = len(self.order)
        self.depths: dict[Value, int] = {}
        self.levels: list[list[Value]] = [[] for _ in range(innermost + 1)]
        rare_only = only_in_rare(roots_of(self.nest))
        self.indices = {without_constant(e.index): None for e in self.nest.effects}
        for x in nodes(self.nest):
            depth = max([self.depths[y] for y in x.operands], default=0)
            vector = any(self.is_vector[y] for y in x.operands)
            index = x.attr[1] if x.op == "load" else x.attr if x.op == "index" else None
            if index is not None:
                # Constants are added to addresses, not to offsets.
                self.indices[without_constant(index) if x.op == "load" else index] = None
                for axis, _ in index.axes():
                    depth = max(depth, places.get(axis, 0))
                    vector = vector or axis is self.vector
                if x.op == "load" and self.nest.ordered and x.attr[0] in written:
                    depth = innermost
            if x.op == "load" and x not in rare_only and x.attr[0] not in written:
                self._note_neighbor(x)
            self.depths[x] = depth
            self.is_vector[x] = vector
            if x not in rare_only:
                self.levels[depth].append(x)
        self.work = sum(cost(x) for level in self.levels for x in level)
        self.groups = [vector_calls.grouped(level, self.is_vector) for level in self.levels]

    def _note_neighbor(self, x: Value) -> None:
        """Note an element that every iteration reads."""
        buffer, index = x.attr
        if len(x.operands) == len(index.operands) and index.const.__class__ is int:
            self.neighbors.setdefault((buffer, without_constant(index)), set()).add(index.const)

    # Loops.

    def write(self, begin: str, end: str, inner: tuple[str, str] | None = None) -> None:
        """Emit the nest, its outermost axis from `begin` to `end`; `inner` is the innermost's."""
        if inner is not None and not self.is_row:
            self.ranges[self.order[-1]] = inner
        if self.is_row:
            assert self.vector is not None
            self.counters[self.vector] = "0"
            size = int(self.vector.size)
            if size < self.width:
                self.mask = first_lanes(size, self.width)
        self._level(0, begin, end)

    def _level(self, depth: int, begin: str = "0", end: str = "") -> None:
        self._enter(depth)
        if depth == self.first_reduced and not self.nest.is_map:
            self._reductions(depth, begin, end)
            return
        if depth == len(self.order):
            self._stores()
            return
        axis = self.order[depth]
        begin, end = self.ranges.get(axis, (begin, end or self.w.dim(axis.size)))
        self._axis(axis, begin, end, [], lambda _: self._inner(depth))

    def _enter(self, depth: int) -> None:
        """Compute what depends only on the outermost `depth` axes."""
        for group in self.groups[depth]:
            vector_calls.compute(self, group)
        if depth < len(self.order):
            for index in self.indices:
                self.offset(index, depth)

    def _inner(self, depth: int) -> list[str]:
        self._level(depth + 1)
        return []

    def _axis(
        self,
        axis: Axis,
        begin: str,
        end: str,
        carried: list[tuple[str, str]],
        body: Callable[[list[str]], list[str]],
    ) -> list[str]:
        """Emit a loop over an axis, with loop-carried values given by type and initial value."""
        if axis is not self.vector:
            return self._loop(axis, begin, end, 1, carried, body)
        width, size = self.width, axis.size
        if size.__class__ is not int or begin != "0" or end != str(size):
            count = self.w.emit(f"sub i64 {end}, {begin}")
            rest = self.w.emit(f"and i64 {count}, {width - 1}")
            whole = self.w.emit(f"sub i64 {end}, {rest}")
            found = self._loop(axis, begin, whole, width, carried, body, may_skip=True)
            if self.schedule.is_exact:
                return found
            some = self.w.emit(f"icmp ne i64 {rest}, 0")
            return self.when(
                some, found, carried, lambda: self._masked(axis, whole, rest, found, body)
            )
        full = size // width * width
        values = [value for _, value in carried]
        if full:
            values = self._loop(axis, "0", str(full), width, carried, body)
        if full < size:
            values = self._masked(axis, str(full), str(size - full), values, body)
        return values

    def _masked(
        self,
        axis: Axis,
        at: str,
        count: str,
        values: list[str],
        body: Callable[[list[str]], list[str]],
    ) -> list[str]:
        """Emit one vector of which only the first elements are active."""
        w, width = self.w, self.width
        lanes = f"<{width} x i64>"
        if count.isdigit():
            mask = first_lanes(int(count), width)
        else:
            first = w.emit(f"insertelement {lanes} poison, i64 {count}, i32 0")
            limit = w.emit(
                f"shufflevector {lanes} {first}, {lanes} poison, <{width} x i32> zeroinitializer"
            )
            mask = w.emit(f"icmp ult {lanes} {iota(width)}, {limit}")
        saved = self.save()
        self.mask, self.counters[axis] = mask, at
        found = body(values)
        self.mask = None
        self.restore(saved)
        return found

    def _loop(
        self,
        axis: Axis,
        begin: str,
        end: str,
        step: int,
        carried: list[tuple[str, str]],
        body: Callable[[list[str]], list[str]],
        *,
        may_skip: bool = False,
    ) -> list[str]:
        w = self.w
        if begin.isdigit() and end.isdigit():
            starts = range(int(begin), int(end), step)
            if len(starts) == 1 or len(starts) * self.work <= self.most_unrolled:
                found = [value for _, value in carried]
                for start in starts:
                    saved = self.save()
                    self.counters[axis] = str(start)
                    found = body(found)
                    self.restore(saved)
                return found
        before, head, after = w.block, w.label("loop"), w.label("done")
        if may_skip or not (begin.isdigit() and end.isdigit()):
            some = w.emit(f"icmp slt i64 {begin}, {end}")
            w.do(f"br i1 {some}, label %{head}, label %{after}")
            may_skip = True
        else:
            w.do(f"br label %{head}")
        w.begin(head)
        counter, following = w.name(), w.name()
        phis = [(w.name(), kind, initial) for kind, initial in carried]
        position = w.mark()
        saved = self.save()
        self.counters[axis] = counter
        values = body([name for name, _, _ in phis])
        self.restore(saved)
        last = w.block
        w.do(f"{following} = add i64 {counter}, {step}")
        more = w.emit(f"icmp slt i64 {following}, {end}")
        w.do(f"br i1 {more}, label %{head}, label %{after}")
        lines = [f"{counter} = phi i64 [ {begin}, %{before} ], [ {following}, %{last} ]"]
        for (name, kind, initial), value in zip(phis, values, strict=True):
            lines.append(f"{name} = phi {kind} [ {initial}, %{before} ], [ {value}, %{last} ]")
        w.insert(position, lines)
        w.begin(after)
        if not may_skip:
            return values
        found = []
        for (_, kind, initial), value in zip(phis, values, strict=True):
            found.append(w.emit(f"phi {kind} [ {initial}, %{before} ], [ {value}, %{last} ]"))
        return found

    # Results.

    def _stores(self) -> None:
        stores = [effect for effect in self.nest.effects if isinstance(effect, Store)]
        while stores:
            count = self._stored_in_turn(stores)
            if not count:
                first, count = stores[0], 1
                self._store(first.buffer, first.index, first.value, first.mask)
            del stores[:count]

    def _stored_in_turn(self, stores: list[Store]) -> int:
        """Store values that take turns, as the parts of complex numbers do; return how many."""
        first = stores[0]
        stride = self.stride_of(first.index)
        run = stores[:stride]
        if stride not in strided.STRIDES or not all(
            x.buffer is first.buffer and x.index == first.index + i and x.mask is None
            for i, x in enumerate(run)
        ):
            return 0
        names = [self.operand(x.value, self.width) for x in run]
        mask = self.mask or ALL_LANES
        return stride if strided.store(self, first.buffer, first.index, names, mask) else 0

    def _store(self, buffer: Buffer, index: Index, value: Value, own: Value | None) -> None:
        lanes_vary = any(axis is self.vector for axis, _ in index.axes()) or any(
            self.is_vector[v] for v in index.operands
        )
        width = self.width if lanes_vary else 1
        if width == 1 and self.is_vector.get(value):
            raise AssertionError("a store that does not have all axes of its value")
        self.write_element(buffer, index, self.operand(value, width), self.both(own, width), width)

    # Reductions.

    def _reductions(self, depth: int, begin: str, end: str) -> None:
        """Emit the loops over the reduced axes, and then the results."""
        reduces = [e for e in self.nest.effects if isinstance(e, Reduce)]
        states = [Accumulator(self, self.first_reduced, e) for e in reduces]
        carried = [pair for state in states for pair in state.initial()]

        def inner(depth: int, values: list[str], begin: str = "0", end: str = "") -> list[str]:
            if depth == len(self.order):
                self._stores()
                found = []
                for state in states:
                    mine, values = values[: state.count], values[state.count :]
                    found += state.combined(mine)
                return found
            axis = self.order[depth]
            pairs = [(kind, value) for (kind, _), value in zip(carried, values, strict=True)]

            def body(values: list[str]) -> list[str]:
                self._enter(depth + 1)
                return inner(depth + 1, values)

            return self._axis(axis, begin, end or self.w.dim(axis.size), pairs, body)

        values = inner(depth, [value for _, value in carried], begin, end)
        for state in states:
            mine, values = values[: state.count], values[state.count :]
            state.finish(mine)
