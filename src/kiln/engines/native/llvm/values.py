"""Scalar expressions as LLVM IR: values, and the memory they are loaded from and stored to.

A `Frame` is a point in a function under construction: the counters of the enclosing axes, and the
registers of what has been computed there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kiln.engines.native.llvm import strided
from kiln.engines.native.llvm.addresses import (
    ALL_LANES,
    Addresses,
    Pointer,
    iota,
    memory_type,
    suffix_of,
)
from kiln.engines.native.llvm.instructions import instruction, type_text
from kiln.engines.native.llvm.watch import Watch, watched
from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.loop_ir.checks import CHECKED, WITHIN
from kiln.engines.native.loop_ir.scalars import BASIC, NUMPY_TYPES, Value, bits, postorder
from kiln.engines.native.loop_ir.statements import Axis, Buffer, Index
from kiln.ir.sizes.size import Dim

Saved = tuple[
    dict[Value, str],
    dict[tuple[str, Axis, Dim], str],
    dict[tuple[str, str, str], str],
    dict[str, str],
]
Elementary = Callable[[Value, int], str]
"""Returns the name of a function of this module that computes an elementary function."""


class Frame(Addresses):
    """Emits values into a function; those that depend on the axis `vector` are vectors."""

    def __init__(
        self,
        w: Writer,
        pointer: Pointer,
        counters: dict[Axis, str],
        order: tuple[Axis, ...],
        vector: Axis | None,
        width: int,
        elementary: Elementary,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(w, pointer, counters, order, vector, width)
        self.watch = watch
        self.elementary = elementary
        self.mask: str | None = None
        self.names: dict[Value, str] = {}
        self.splats: dict[str, str] = {}

    def when(
        self,
        condition: str,
        values: list[str],
        carried: list[tuple[str, str]],
        then: Callable[[], list[str]],
        *,
        rare: bool = False,
    ) -> list[str]:
        """Emit a block that runs if a condition holds."""
        w = self.w
        before, yes, after = w.block, w.label("then"), w.label("done")
        weights = ", !prof !0" if rare else ""
        w.do(f"br i1 {condition}, label %{yes}, label %{after}{weights}")
        w.begin(yes)
        saved = self.save()
        found = then()
        self.restore(saved)
        last = w.block
        w.do(f"br label %{after}")
        w.begin(after)
        return [
            w.emit(f"phi {kind} [ {old}, %{before} ], [ {made}, %{last} ]")
            for (kind, _), old, made in zip(carried, values, found, strict=True)
        ]

    def save(self) -> Saved:
        """Return what is computed here, for `restore`."""
        return dict(self.names), dict(self.offsets), dict(self.addresses), dict(self.splats)

    def restore(self, saved: Saved) -> None:
        """Forget what was computed since."""
        self.names, self.offsets, self.addresses, self.splats = saved

    # Values.

    def compute(self, x: Value) -> str:
        """Emit the instructions of a value whose operands are emitted; return its register."""
        known = self.names.get(x)
        if known is not None:
            return known
        width = self.width if self.is_vector[x] else 1
        if x.op == "load":
            name = self._load(x, width)
        elif x.op == "index":
            name = self.number(x.attr, x.dtype, width)
        elif x.op == "size":
            name = self._size(x)
        elif x.op == "rare":
            name = self._rare(x, width)
        elif x.op in (CHECKED, WITHIN):
            name = watched(self, x, width)
        else:
            operands = [self.operand(y, width) for y in x.operands]
            if x.op in BASIC or x.op == "constant":
                name = instruction(self.w, x, operands, width)
            else:
                name = self.call(x, operands, width)
        self.names[x] = name
        return name

    def call(self, x: Value, operands: Sequence[str], width: int) -> str:
        """Emit a call of an elementary function; return its register."""
        kind = type_text(x.dtype, width)
        listed = ", ".join(
            f"{type_text(y.dtype, width)} {each}"
            for y, each in zip(x.operands, operands, strict=True)
        )
        return self.w.emit(f"call {kind} {self.elementary(x, width)}({listed})")

    def _size(self, x: Value) -> str:
        name, kind = self.w.dim(x.attr), type_text(x.dtype, 1)
        if bits(x.dtype) == 64:
            return name
        if x.dtype == "i1":
            return self.w.emit(f"icmp ne i64 {name}, 0")
        return self.w.emit(f"trunc i64 {name} to {kind}")

    def operand(self, x: Value, width: int) -> str:
        """Return a value as an operand of vectors of a width, or of scalars."""
        name = self.compute(x)
        if width == 1 or self.is_vector[x]:
            return name
        if x.op == "constant":
            return instruction(self.w, x, (), width)
        found = self.splats.get(name)
        if found is None:
            found = self.splats[name] = self.splat(name, type_text(x.dtype, 1), width)
        return found

    def _rare(self, x: Value, width: int) -> str:
        w = self.w
        mask, usual, exact = x.operands
        flags, plain = self.operand(mask, width), self.operand(usual, width)
        kind = type_text(x.dtype, width)
        some = flags
        if width > 1:
            some = w.emit(f"call i1 @llvm.vector.reduce.or.v{width}i1(<{width} x i1> {flags})")

        def slow() -> list[str]:
            found = self.operand_in_place(exact, width)
            if width == 1:
                return [found]
            return [w.emit(f"select <{width} x i1> {flags}, {kind} {found}, {kind} {plain}")]

        return self.when(some, [plain], [(kind, plain)], slow, rare=True)[0]

    def operand_in_place(self, x: Value, width: int) -> str:
        """Return a value as an operand, computing everything on which it depends here."""
        rare = only_in_rare([x])
        for y in postorder([x]):
            if y not in rare:
                self.compute(y)
        return self.operand(x, width)

    # Memory.

    def number(self, index: Index, dtype: str, width: int) -> str:
        """Return the number of an index."""
        w = self.w
        name = self.offset(index)
        kind = type_text(dtype, 1)
        if kind != "i64" and not name.isdigit():
            name = w.emit(f"trunc i64 {name} to {kind}")
        if width == 1:
            return name
        base = self.splat(name, kind, width)
        lanes = self.lanes(index)
        vector = type_text(dtype, width)
        if lanes is None:
            lanes = iota(width, 1)
        if kind != "i64":
            if lanes.startswith("<"):
                lanes = lanes.replace("i64", kind)
            else:
                lanes = w.emit(f"trunc <{width} x i64> {lanes} to {vector}")
        return w.emit(f"add {vector} {base}, {lanes}")

    def both(self, mask: Value | None, width: int) -> str | None:
        """Return the mask of a load or store: its own, combined with that of the remainder."""
        own = None if mask is None else self.operand(mask, width)
        if width == 1 or self.mask is None:
            return own
        if own is None:
            return self.mask
        return self.w.emit(f"and <{width} x i1> {own}, {self.mask}")

    def _load(self, x: Value, width: int) -> str:
        w = self.w
        buffer, index = x.attr
        rest = x.operands[len(index.operands) :]
        own, other = rest or (None, None)
        bytes_ = NUMPY_TYPES[buffer.dtype].itemsize
        kind = memory_type(buffer.dtype, width)
        mask = self.both(own, width)
        if width == 1:
            if mask is None:
                name = w.emit(f"load {kind}, ptr {self.address(buffer, index)}, align {bytes_}")
                return self._from_memory(name, buffer.dtype, 1)
            assert other is not None
            fallback = self.operand(other, 1)
            result = type_text(buffer.dtype, 1)

            def read() -> list[str]:
                place = self.address(buffer, index)
                name = w.emit(f"load {kind}, ptr {place}, align {bytes_}")
                return [self._from_memory(name, buffer.dtype, 1)]

            return self.when(mask, [fallback], [(result, fallback)], read)[0]
        instead = "zeroinitializer"
        if other is not None:
            instead = self._to_memory(self.operand(other, width), buffer.dtype, width)
        flags = mask or ALL_LANES
        suffix = suffix_of(kind)
        if self._runs_back(index):
            # The last lane is first in memory.
            place = self.address(buffer, index + (1 - width))
            name = w.emit(
                f"call {kind} @llvm.masked.load.{suffix}.p0(ptr align {bytes_} {place}, "
                f"<{width} x i1> {self._turned(flags, 'i1')}, {kind} {self._turned(instead, kind)})"
            )
            name = self._turned(name, kind)
            return self._from_memory(name, buffer.dtype, width)
        shuffled = strided.load(self, buffer, index, flags) if other is None else None
        if shuffled is not None:
            return self._from_memory(shuffled, buffer.dtype, width)
        lanes = self.lanes(index)
        if lanes is not None:
            places = self.addresses_of(buffer, index, lanes)
            name = w.emit(
                f"call {kind} @llvm.masked.gather.{suffix}.v{width}p0("
                f"<{width} x ptr> align {bytes_} {places}, <{width} x i1> {flags}, "
                f"{kind} {instead})"
            )
        elif mask is None:
            name = w.emit(f"load {kind}, ptr {self.address(buffer, index)}, align {bytes_}")
        else:
            place = self.address(buffer, index)
            name = w.emit(
                f"call {kind} @llvm.masked.load.{suffix}.p0(ptr align {bytes_} {place}, "
                f"<{width} x i1> {flags}, {kind} {instead})"
            )
        return self._from_memory(name, buffer.dtype, width)

    def _runs_back(self, index: Index) -> bool:
        """Tell whether lanes access consecutive elements in reverse order."""
        return (
            self.vector is not None
            and index.factor(self.vector) == -1
            and not any(self.is_vector[v] for v in index.operands)
        )

    def _turned(self, name: str, kind: str) -> str:
        """Return a vector with its lanes in the opposite order."""
        if name == "zeroinitializer" or name.startswith("splat"):
            return name
        width = self.width
        if not kind.startswith("<"):
            kind = f"<{width} x {kind}>"
        order = ", ".join(f"i32 {i}" for i in reversed(range(width)))
        return self.w.emit(f"shufflevector {kind} {name}, {kind} poison, <{width} x i32> <{order}>")

    def _from_memory(self, name: str, dtype: str, width: int) -> str:
        if dtype != "i1":
            return name
        return self.w.emit(
            f"icmp ne {memory_type('i1', width)} {name}, zeroinitializer"
            if width > 1
            else f"icmp ne i8 {name}, 0"
        )

    def _to_memory(self, name: str, dtype: str, width: int) -> str:
        if dtype != "i1":
            return name
        return self.w.emit(f"zext {type_text('i1', width)} {name} to {memory_type('i1', width)}")

    def write_element(
        self, buffer: Buffer, index: Index, name: str, mask: str | None, width: int
    ) -> None:
        """Store an element, or one per lane, where the mask holds."""
        w = self.w
        bytes_ = NUMPY_TYPES[buffer.dtype].itemsize
        kind = memory_type(buffer.dtype, width)
        if width == 1:
            stored = self._to_memory(name, buffer.dtype, 1)

            def put() -> list[str]:
                place = self.address(buffer, index)
                w.do(f"store {kind} {stored}, ptr {place}, align {bytes_}")
                return []

            if mask is None:
                put()
            else:
                self.when(mask, [], [], put)
            return
        stored = self._to_memory(name, buffer.dtype, width)
        lanes = self.lanes(index)
        flags = mask or ALL_LANES
        suffix = suffix_of(kind)
        if lanes is not None:
            places = self.addresses_of(buffer, index, lanes)
            w.do(
                f"call void @llvm.masked.scatter.{suffix}.v{width}p0({kind} {stored}, "
                f"<{width} x ptr> align {bytes_} {places}, <{width} x i1> {flags})"
            )
        elif mask is None:
            place = self.address(buffer, index)
            w.do(f"store {kind} {stored}, ptr {place}, align {bytes_}")
        else:
            place = self.address(buffer, index)
            w.do(
                f"call void @llvm.masked.store.{suffix}.p0({kind} {stored}, "
                f"ptr align {bytes_} {place}, <{width} x i1> {flags})"
            )


def only_in_rare(roots: Sequence[Value]) -> set[Value]:
    """Return the values that only the rare branches of others need."""
    needed: set[Value] = set()
    stack = list(roots)
    any_is_rare = False
    while stack:
        x = stack.pop()
        if x in needed:
            continue
        needed.add(x)
        if x.op == "rare":
            any_is_rare = True
            stack.extend(x.operands[:2])
        else:
            stack.extend(x.operands)
    return {x for x in postorder(roots) if x not in needed} if any_is_rare else set()
