"""A nest of loops as LLVM: the order of its axes, vectors, and where each value is computed.

Axes that are kept come before those that are reduced, and one axis is counted in vectors. A value is
computed in the outermost loop that has all axes it depends on. What does not fill a vector at the
end of an axis is computed by one more vector under a mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from kiln.engines.native.llvm.instructions import instruction, type_text
from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.loop_ir import Axis, Buffer, Index, Nest, Reduce, Store
from kiln.engines.native.passes.schedule import Schedule
from kiln.engines.native.scalars import (
    NUMPY_TYPES,
    Scope,
    Value,
    is_float,
    postorder,
)

UNROLLED = 24
"""A loop whose turns are no more values than this is written out."""
Saved = tuple[dict[Value, str], dict[tuple[str, Axis, int], str], dict[str, str]]
Pointer = Callable[[Buffer], str]
"""Returns the register that holds where a buffer begins."""


def memory_type(dtype: str, width: int) -> str:
    """Return the type of elements in memory, where a bool is a byte."""
    return type_text("u8" if dtype == "i1" else dtype, width)


class NestCode:
    """Writes one nest into a function that is being written."""

    def __init__(
        self,
        w: Writer,
        nest: Nest,
        schedule: Schedule,
        pointer: Pointer,
        outer: dict[Axis, str],
    ) -> None:
        self.w = w
        self.nest = nest
        self.schedule = schedule
        self.pointer = pointer
        self.counters: dict[Axis, str] = dict(outer)
        self.mask: str | None = None
        self.width = schedule.width
        self.names: dict[Value, str] = {}
        self.offsets: dict[tuple[str, Axis, int], str] = {}
        self.splats: dict[str, str] = {}
        self.order = schedule.order
        self.vector = schedule.vector
        self.first_reduced = schedule.kept
        self._plan_values()

    def scalar(self, index: Index) -> str:
        """Return the register of an index whose terms are all known here."""
        for x in self.levels[0]:
            self._compute(x)
        return self._offset(index)

    # Planning.

    def _plan_values(self) -> None:
        """Decide in which loop each value is computed, and which are vectors."""
        places = {axis: depth for depth, axis in enumerate(self.order, 1)}
        written = {effect.buffer for effect in self.nest.effects}
        innermost = len(self.order)
        roots: list[Value] = []
        for effect in self.nest.effects:
            roots.append(effect.value)
            roots.extend(value for value, _ in effect.index.values())
            if isinstance(effect, Store) and effect.mask is not None:
                roots.append(effect.mask)
        self.depths: dict[Value, int] = {}
        self.is_vector: dict[Value, bool] = {}
        self.levels: list[list[Value]] = [[] for _ in range(innermost + 1)]
        rare_only = _only_in_rare(roots)
        self.indices: dict[Index, None] = {e.index: None for e in self.nest.effects}
        for x in postorder(roots):
            depth = max([self.depths[y] for y in x.operands], default=0)
            vector = any(self.is_vector[y] for y in x.operands)
            index = x.attr[1] if x.op == "load" else x.attr if x.op == "index" else None
            if index is not None:
                self.indices[index] = None
                for axis, _ in index.axes():
                    depth = max(depth, places.get(axis, 0))
                    vector = vector or axis is self.vector
                if x.op == "load" and self.nest.ordered and x.attr[0] in written:
                    depth = innermost
            self.depths[x] = depth
            self.is_vector[x] = vector
            if x not in rare_only:
                self.levels[depth].append(x)

    # Loops.

    def write(self, begin: str, end: str) -> None:
        """Write the nest, its outermost axis from `begin` to `end`."""
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
        end = end or str(axis.size)
        self._axis(axis, begin, end, [], lambda _: self._inner(depth))

    def _enter(self, depth: int) -> None:
        """Compute what does not depend on the axes within the first so many."""
        for x in self.levels[depth]:
            self._compute(x)
        if depth < len(self.order):
            for index in self.indices:
                self._offset(index, depth)

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
        """Write a loop over an axis, with carried values given by type and initial value."""
        if axis is not self.vector:
            return self._loop(axis, begin, end, 1, carried, body)
        width, size = self.width, axis.size
        static = begin == "0" and end == str(size)
        if not static:
            count = self.w.emit(f"sub i64 {end}, {begin}")
            rest = self.w.emit(f"and i64 {count}, {width - 1}")
            whole = self.w.emit(f"sub i64 {end}, {rest}")
            found = self._loop(axis, begin, whole, width, carried, body, may_skip=True)
            if self.schedule.is_exact:
                return found
            some = self.w.emit(f"icmp ne i64 {rest}, 0")
            return self._when(some, found, carried, lambda: self._masked(axis, whole, rest, found, body))
        whole = size // width * width
        values = [value for _, value in carried]
        if whole:
            values = self._loop(axis, "0", str(whole), width, carried, body)
        if whole < size:
            values = self._masked(axis, str(whole), str(size - whole), values, body)
        return values

    def _masked(
        self,
        axis: Axis,
        at: str,
        count: str,
        values: list[str],
        body: Callable[[list[str]], list[str]],
    ) -> list[str]:
        """Write one vector of which the first elements count."""
        w, width = self.w, self.width
        lanes = f"<{width} x i64>"
        if count.isdigit():
            flags = ", ".join(f"i1 {int(i < int(count))}" for i in range(width))
            mask = f"<{flags}>"
        else:
            first = w.emit(f"insertelement {lanes} poison, i64 {count}, i32 0")
            limit = w.emit(
                f"shufflevector {lanes} {first}, {lanes} poison, <{width} x i32> zeroinitializer"
            )
            mask = w.emit(f"icmp ult {lanes} {_iota(width)}, {limit}")
        saved = self._save()
        self.mask, self.counters[axis] = mask, at
        found = body(values)
        self.mask = None
        self._restore(saved)
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
            if len(starts) == 1 or len(starts) * sum(map(len, self.levels)) <= UNROLLED:
                found = [value for _, value in carried]
                for start in starts:
                    saved = self._save()
                    self.counters[axis] = str(start)
                    found = body(found)
                    self._restore(saved)
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
        saved = self._save()
        self.counters[axis] = counter
        values = body([name for name, _, _ in phis])
        self._restore(saved)
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

    def _when(
        self,
        condition: str,
        values: list[str],
        carried: list[tuple[str, str]],
        then: Callable[[], list[str]],
    ) -> list[str]:
        """Write a block that runs if a condition holds."""
        w = self.w
        before, yes, after = w.block, w.label("then"), w.label("done")
        w.do(f"br i1 {condition}, label %{yes}, label %{after}")
        w.begin(yes)
        saved = self._save()
        found = then()
        self._restore(saved)
        last = w.block
        w.do(f"br label %{after}")
        w.begin(after)
        return [
            w.emit(f"phi {kind} [ {old}, %{before} ], [ {made}, %{last} ]")
            for (kind, _), old, made in zip(carried, values, found, strict=True)
        ]

    def _save(self) -> Saved:
        return dict(self.names), dict(self.offsets), dict(self.splats)

    def _restore(self, saved: Saved) -> None:
        self.names, self.offsets, self.splats = saved

    # Values.

    def _compute(self, x: Value) -> str:
        """Write the instructions of a value whose operands are written; return its register."""
        known = self.names.get(x)
        if known is not None:
            return known
        width = self.width if self.is_vector[x] else 1
        if x.op == "load":
            name = self._load(x, width)
        elif x.op == "index":
            name = self._number(x.attr, x.dtype, width)
        elif x.op == "rare":
            name = self._rare(x, width)
        else:
            operands = [self._operand(y, width) for y in x.operands]
            name = instruction(self.w, x, operands, width)
        self.names[x] = name
        return name

    def _operand(self, x: Value, width: int) -> str:
        """Return a value as an operand of vectors of a width, or of scalars."""
        name = self._compute(x)
        if width == 1 or self.is_vector[x]:
            return name
        if x.op == "constant":
            return instruction(self.w, x, (), width)
        found = self.splats.get(name)
        if found is None:
            found = self.splats[name] = self._splat(name, type_text(x.dtype, 1), width)
        return found

    def _splat(self, name: str, kind: str, width: int) -> str:
        w = self.w
        first = w.emit(f"insertelement <{width} x {kind}> poison, {kind} {name}, i32 0")
        return w.emit(
            f"shufflevector <{width} x {kind}> {first}, <{width} x {kind}> poison, "
            f"<{width} x i32> zeroinitializer"
        )

    def _rare(self, x: Value, width: int) -> str:
        w = self.w
        mask, usual, exact = x.operands
        flags, plain = self._operand(mask, width), self._operand(usual, width)
        kind = type_text(x.dtype, width)
        some = flags
        if width > 1:
            some = w.emit(f"call i1 @llvm.vector.reduce.or.v{width}i1(<{width} x i1> {flags})")

        def slow() -> list[str]:
            found = self._operand_in_place(exact, width)
            if width == 1:
                return [found]
            return [
                w.emit(f"select <{width} x i1> {flags}, {kind} {found}, {kind} {plain}")
            ]

        return self._when(some, [plain], [(kind, plain)], slow)[0]

    def _operand_in_place(self, x: Value, width: int) -> str:
        for y in postorder([x]):
            self._compute(y)
        return self._operand(x, width)

    # Memory.

    def _offset(self, index: Index, depth: int | None = None) -> str:
        """Return the register of the part of an index that is the same for all lanes.

        With a depth, only the terms in so many axes are added up.
        """
        w = self.w
        name = str(index.const)
        for axis, factor in sorted(index.axes(), key=lambda term: self._place(term[0])):
            if depth is not None and self._place(axis) > depth:
                return name
            counter = self.counters[axis]
            if counter.isdigit() and name.isdigit() and factor >= 0:
                name = str(int(name) + int(counter) * factor)
                continue
            key = (name, axis, factor)
            found = self.offsets.get(key)
            if found is None:
                product = counter if factor == 1 else w.emit(f"mul i64 {counter}, {factor}")
                found = product if name == "0" else w.emit(f"add i64 {product}, {name}")
                self.offsets[key] = found
            name = found
        if depth is not None:
            return name
        for value, factor in index.values():
            if self.is_vector[value]:
                continue
            number = self._wide_integer(self._compute(value), value.dtype, 1)
            product = number if factor == 1 else w.emit(f"mul i64 {number}, {factor}")
            name = product if name == "0" else w.emit(f"add i64 {product}, {name}")
        return name

    def _place(self, axis: Axis) -> int:
        return self.order.index(axis) + 1 if axis in self.order else 0

    def _wide_integer(self, name: str, dtype: str, width: int) -> str:
        kind, wide = type_text(dtype, width), type_text("i64", width)
        if dtype in ("i64", "u64"):
            return name
        how = "zext" if dtype.startswith("u") or dtype == "i1" else "sext"
        return self.w.emit(f"{how} {kind} {name} to {wide}")

    def _lanes(self, index: Index) -> str | None:
        """Return the register of what each lane adds to an index; None if lanes follow on."""
        w, width = self.w, self.width
        factor = index.factor(self.vector) if self.vector is not None else 0
        dynamic = [(v, f) for v, f in index.values() if self.is_vector[v]]
        if not dynamic and factor == 1:
            return None
        kind = f"<{width} x i64>"
        name = _iota(width, factor)
        for value, f in dynamic:
            number = self._wide_integer(self._compute(value), value.dtype, width)
            if f != 1:
                splat = instruction(w, value.scope.constant(f, "i64"), (), width)
                number = w.emit(f"mul {kind} {number}, {splat}")
            name = w.emit(f"add {kind} {number}, {name}") if factor else number
            factor = 1
        return name

    def _number(self, index: Index, dtype: str, width: int) -> str:
        """Return the number of an index."""
        w = self.w
        name = self._offset(index)
        kind = type_text(dtype, 1)
        if kind != "i64" and not name.isdigit():
            name = w.emit(f"trunc i64 {name} to {kind}")
        if width == 1:
            return name
        base = self._splat(name, kind, width)
        lanes = self._lanes(index)
        vector = type_text(dtype, width)
        if lanes is None:
            lanes = _iota(width, 1)
        if kind != "i64":
            if lanes.startswith("<"):
                lanes = lanes.replace("i64", kind)
            else:
                lanes = w.emit(f"trunc <{width} x i64> {lanes} to {vector}")
        return w.emit(f"add {vector} {base}, {lanes}")

    def _address(self, buffer: Buffer, index: Index) -> str:
        base, offset = self.pointer(buffer), self._offset(index)
        if offset == "0":
            return base
        return self.w.emit(f"getelementptr {memory_type(buffer.dtype, 1)}, ptr {base}, i64 {offset}")

    def _addresses(self, buffer: Buffer, index: Index, lanes: str) -> str:
        base = self._address(buffer, index)
        return self.w.emit(
            f"getelementptr {memory_type(buffer.dtype, 1)}, ptr {base}, "
            f"<{self.width} x i64> {lanes}"
        )

    def _both(self, mask: Value | None, width: int) -> str | None:
        """Return the mask of a load or store: its own, and that of the end of an axis."""
        own = None if mask is None else self._operand(mask, width)
        if width == 1 or self.mask is None:
            return own
        if own is None:
            return self.mask
        return self.w.emit(f"and <{width} x i1> {own}, {self.mask}")

    def _load(self, x: Value, width: int) -> str:
        w = self.w
        buffer, index = x.attr
        rest = x.operands[sum(1 for _ in index.values()) :]
        own, other = rest if rest else (None, None)
        bytes_ = NUMPY_TYPES[buffer.dtype].itemsize
        kind = memory_type(buffer.dtype, width)
        mask = self._both(own, width)
        if width == 1:
            if mask is None:
                name = w.emit(f"load {kind}, ptr {self._address(buffer, index)}, align {bytes_}")
                return self._from_memory(name, buffer.dtype, 1)
            assert other is not None
            fallback = self._operand(other, 1)
            result = type_text(buffer.dtype, 1)

            def read() -> list[str]:
                place = self._address(buffer, index)
                name = w.emit(f"load {kind}, ptr {place}, align {bytes_}")
                return [self._from_memory(name, buffer.dtype, 1)]

            return self._when(mask, [fallback], [(result, fallback)], read)[0]
        instead = "zeroinitializer"
        if other is not None:
            instead = self._to_memory(self._operand(other, width), buffer.dtype, width)
        lanes = self._lanes(index)
        flags = mask or "splat (i1 1)"
        suffix = _suffix(kind)
        if lanes is not None:
            places = self._addresses(buffer, index, lanes)
            name = w.emit(
                f"call {kind} @llvm.masked.gather.{suffix}.v{width}p0(<{width} x ptr> align {bytes_} "
                f"{places}, <{width} x i1> {flags}, {kind} {instead})"
            )
        elif mask is None:
            name = w.emit(f"load {kind}, ptr {self._address(buffer, index)}, align {bytes_}")
        else:
            place = self._address(buffer, index)
            name = w.emit(
                f"call {kind} @llvm.masked.load.{suffix}.p0(ptr align {bytes_} {place}, "
                f"<{width} x i1> {flags}, {kind} {instead})"
            )
        return self._from_memory(name, buffer.dtype, width)

    def _from_memory(self, name: str, dtype: str, width: int) -> str:
        if dtype != "i1":
            return name
        return self.w.emit(f"icmp ne {memory_type('i1', width)} {name}, zeroinitializer"
                           if width > 1 else f"icmp ne i8 {name}, 0")

    def _to_memory(self, name: str, dtype: str, width: int) -> str:
        if dtype != "i1":
            return name
        return self.w.emit(f"zext {type_text('i1', width)} {name} to {memory_type('i1', width)}")

    def _stores(self) -> None:
        for effect in self.nest.effects:
            if isinstance(effect, Store):
                self._store(effect.buffer, effect.index, effect.value, effect.mask)

    def _store(self, buffer: Buffer, index: Index, value: Value, own: Value | None) -> None:
        lanes_vary = any(axis is self.vector for axis, _ in index.axes()) or any(
            self.is_vector[v] for v, _ in index.values()
        )
        width = self.width if lanes_vary else 1
        if width == 1 and self.is_vector.get(value):
            raise AssertionError("a store that does not have all axes of its value")
        self._write(buffer, index, self._operand(value, width), self._both(own, width), width)

    def _write(
        self, buffer: Buffer, index: Index, name: str, mask: str | None, width: int
    ) -> None:
        w = self.w
        bytes_ = NUMPY_TYPES[buffer.dtype].itemsize
        kind = memory_type(buffer.dtype, width)
        if width == 1:
            stored = self._to_memory(name, buffer.dtype, 1)

            def put() -> list[str]:
                place = self._address(buffer, index)
                w.do(f"store {kind} {stored}, ptr {place}, align {bytes_}")
                return []

            if mask is None:
                put()
            else:
                self._when(mask, [], [], put)
            return
        stored = self._to_memory(name, buffer.dtype, width)
        lanes = self._lanes(index)
        flags = mask or "splat (i1 1)"
        suffix = _suffix(kind)
        if lanes is not None:
            places = self._addresses(buffer, index, lanes)
            w.do(
                f"call void @llvm.masked.scatter.{suffix}.v{width}p0({kind} {stored}, "
                f"<{width} x ptr> align {bytes_} {places}, <{width} x i1> {flags})"
            )
        elif mask is None:
            place = self._address(buffer, index)
            w.do(f"store {kind} {stored}, ptr {place}, align {bytes_}")
        else:
            place = self._address(buffer, index)
            w.do(
                f"call void @llvm.masked.store.{suffix}.p0({kind} {stored}, "
                f"ptr align {bytes_} {place}, <{width} x i1> {flags})"
            )

    # Reductions.

    def _reductions(self, depth: int, begin: str, end: str) -> None:
        """Write the loops over the axes that are reduced, and then the results."""
        reduces = [e for e in self.nest.effects if isinstance(e, Reduce)]
        states = [Accumulator(self, e) for e in reduces]
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

            return self._axis(axis, begin, end or str(axis.size), pairs, body)

        values = inner(depth, [value for _, value in carried], begin, end)
        for state in states:
            mine, values = values[: state.count], values[state.count :]
            state.finish(mine)


class Accumulator:
    """What a reduction carries through its loops."""

    def __init__(self, code: NestCode, reduce: Reduce) -> None:
        self.code = code
        self.reduce = reduce
        self.scope: Scope = reduce.value.scope
        kept = code.schedule.kept
        vector = code.vector
        self.across = vector is not None and vector in code.order[kept:]
        self.width = 1 if vector is None else code.width
        if not self.across and not any(axis is vector for axis, _ in reduce.index.axes()):
            self.width = 1
        self.dtype = reduce.value.dtype
        self.count = 1 if reduce.along is None else 2

    def _identity(self) -> Value:
        return identity(self.scope, self.reduce.op, self.dtype)

    def initial(self) -> list[tuple[str, str]]:
        """Return the types and initial values."""
        width = self.width
        start = instruction(self.code.w, self._identity(), (), width)
        found = [(type_text(self.dtype, width), start)]
        if self.count == 2:
            none = instruction(self.code.w, self.scope.constant(-1, "i32"), (), width)
            found.append((type_text("i32", width), none))
        return found

    def combined(self, values: list[str]) -> list[str]:
        """Combine the carried values with those of a point."""
        code, width = self.code, self.width
        value = code._operand(self.reduce.value, width)
        if self.count == 2:
            return self._nearer(values, [value, self._place()], width, code.mask)
        if code.mask is not None and self.across:
            rest = instruction(code.w, self._identity(), (), width)
            kind = type_text(self.dtype, width)
            value = code.w.emit(
                f"select <{width} x i1> {code.mask}, {kind} {value}, {kind} {rest}"
            )
        return [self._apply(values[0], value, width)]

    def _place(self) -> str:
        assert self.reduce.along is not None
        axis = self.reduce.along
        index = Index(0, ((axis, 1),))
        return self.code._number(index, "i32", self.width if axis is self.code.vector else 1) if (
            self.width == 1 or axis is self.code.vector
        ) else self.code._splat(self.code._number(index, "i32", 1), "i32", self.width)

    def _apply(self, x: str, y: str, width: int) -> str:
        node = self.scope.constant(0, self.dtype)
        made = self.scope.node(self.reduce.op, self.dtype, (node, node))
        return instruction(self.code.w, made, [x, y], width)

    def _nearer(
        self, best: list[str], found: list[str], width: int, mask: str | None
    ) -> list[str]:
        """Keep the better of two pairs of value and position; of equal ones the first."""
        w = self.code.w
        kind, places = type_text(self.dtype, width), type_text("i32", width)
        flags = type_text("i1", width)
        how = "gt" if self.reduce.op == "argmax" else "lt"

        def compare(how: str, x: str, y: str, dtype: str) -> str:
            node = self.scope.constant(0, dtype)
            made = self.scope.node(how, "i1", (node, node))
            return instruction(w, made, [x, y], width)

        (x, at), (y, place) = best, found
        better = compare(how, y, x, self.dtype)
        none = compare("lt", at, instruction(w, self.scope.constant(0, "i32"), (), width), "i32")
        tie = compare("eq", y, x, self.dtype)
        before = compare("lt", place, at, "i32")
        if is_float(self.dtype):
            y_nan, x_nan = compare("ne", y, y, self.dtype), compare("ne", x, x, self.dtype)
            fresh = w.emit(f"xor {flags} {x_nan}, {_true(width)}")
            first_nan = w.emit(f"and {flags} {y_nan}, {fresh}")
            better = w.emit(f"or {flags} {better}, {first_nan}")
            both = w.emit(f"and {flags} {y_nan}, {x_nan}")
            tie = w.emit(f"or {flags} {tie}, {both}")
        earlier = w.emit(f"and {flags} {tie}, {before}")
        take = w.emit(f"or {flags} {better}, {earlier}")
        take = w.emit(f"or {flags} {take}, {none}")
        exists = compare(
            "ge", place, instruction(w, self.scope.constant(0, "i32"), (), width), "i32"
        )
        take = w.emit(f"and {flags} {take}, {exists}")
        if mask is not None and self.across:
            take = w.emit(f"and {flags} {take}, {mask}")
        return [
            w.emit(f"select {flags} {take}, {kind} {y}, {kind} {x}"),
            w.emit(f"select {flags} {take}, {places} {place}, {places} {at}"),
        ]

    def finish(self, values: list[str]) -> None:
        """Combine the lanes if they are of one result, and store it."""
        code, width = self.code, self.width
        if self.across:
            values, width = self._lanes(values), 1
        name, dtype = values[-1], "i32" if self.count == 2 else self.dtype
        buffer = self.reduce.buffer
        if dtype != buffer.dtype:
            node = self.scope.node("convert", buffer.dtype, (self.scope.constant(0, dtype),))
            name = instruction(code.w, node, [name], width)
        mask = code.mask if width > 1 else None
        code._write(buffer, self.reduce.index, name, mask, width)

    def _lanes(self, values: list[str]) -> list[str]:
        """Combine the lanes of vectors, half with half."""
        w, width = self.code.w, self.width
        dtypes = [self.dtype, "i32"][: self.count]
        while width > 1:
            half = width // 2
            parts: list[list[str]] = [[], []]
            for name, dtype in zip(values, dtypes, strict=True):
                kind = type_text(dtype, width)
                for i in (0, 1):
                    lanes = ", ".join(f"i32 {i * half + j}" for j in range(half))
                    made = w.emit(
                        f"shufflevector {kind} {name}, {kind} poison, <{half} x i32> <{lanes}>"
                    )
                    if half == 1:
                        made = w.emit(
                            f"extractelement <1 x {type_text(dtype, 1)}> {made}, i32 0"
                        )
                    parts[i].append(made)
            if self.count == 2:
                values = self._nearer(parts[0], parts[1], half, None)
            else:
                values = [self._apply(parts[0][0], parts[1][0], half)]
            width = half
        return values


def identity(scope: Scope, op: str, dtype: str) -> Value:
    """Return the constant that an operation of reductions leaves others as they are with."""
    kind = NUMPY_TYPES[dtype]
    match op:
        case "add" | "or" | "xor":
            return scope.constant(0, dtype)
        case "mul":
            return scope.constant(1, dtype)
        case "and":
            return ~scope.constant(0, dtype)
        case "max" | "argmax":
            return scope.constant(-math.inf if is_float(dtype) else _bound(kind, low=True), dtype)
        case _:
            return scope.constant(math.inf if is_float(dtype) else _bound(kind, low=False), dtype)


def _bound(kind: object, *, low: bool) -> int:
    signed = kind.kind == "i"  # type: ignore[attr-defined]
    width = 8 * kind.itemsize  # type: ignore[attr-defined]
    if low:
        return -(1 << (width - 1)) if signed else 0
    return (1 << (width - signed)) - 1


def _true(width: int) -> str:
    return "1" if width == 1 else "splat (i1 1)"


def _iota(width: int, factor: int = 1) -> str:
    return "<" + ", ".join(f"i64 {i * factor}" for i in range(width)) + ">"


def _suffix(kind: str) -> str:
    """Return how intrinsics name a vector type: `v16f32` for `<16 x float>`."""
    count, _, element = kind[1:-1].partition(" x ")
    short = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}
    return f"v{count}{short.get(element, element)}"


def _only_in_rare(roots: Sequence[Value]) -> set[Value]:
    """Return the values that only the rare sides of others need."""
    needed: set[Value] = set()
    stack = list(roots)
    while stack:
        x = stack.pop()
        if x in needed:
            continue
        needed.add(x)
        stack.extend(x.operands[:2] if x.op == "rare" else x.operands)
    return {x for x in postorder(roots) if x not in needed}
