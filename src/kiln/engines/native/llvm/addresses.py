"""Where elements are in memory: indices and addresses as LLVM IR.

`Addresses` is a point in a function under construction: the counters of the enclosing axes, and the
registers of offsets and addresses that have been computed there.
"""

from __future__ import annotations

import abc
from collections.abc import Callable

from kiln.engines.native.llvm.instructions import instruction, type_text
from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.loop_ir.scalars import Value
from kiln.engines.native.loop_ir.statements import Axis, Buffer, Index
from kiln.ir.sizes.size import Dim, Size

Pointer = Callable[[Buffer], str]
"""Returns the register with the address of a buffer."""
ALL_LANES = "splat (i1 1)"


def memory_type(dtype: str, width: int) -> str:
    """Return the type of elements in memory, where a bool is a byte."""
    return type_text("u8" if dtype == "i1" else dtype, width)


def without_constant(index: Index) -> Index:
    """Return the part of an index that it has in common with those of neighboring elements."""
    return index if index.const == 0 else Index(0, index.terms)


def suffix_of(kind: str) -> str:
    """Return the suffix of a vector type in intrinsics: `v16f32` for `<16 x float>`."""
    count, _, element = kind[1:-1].partition(" x ")
    short = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}
    return f"v{count}{short.get(element, element)}"


def iota(width: int, factor: int = 1) -> str:
    """Return the constant vector of the multiples of a factor, from 0."""
    return "<" + ", ".join(f"i64 {i * factor}" for i in range(width)) + ">"


def first_lanes(count: int, width: int) -> str:
    """Return the constant mask with this many lanes."""
    if count == width:
        return ALL_LANES
    return "<" + ", ".join(f"i1 {int(i < count)}" for i in range(width)) + ">"


def active_lanes(mask: str, width: int) -> int | None:
    """Return how many lanes a mask of `first_lanes` has; None for any other mask."""
    count = width if mask == ALL_LANES else mask.count("i1 1")
    return count if mask == first_lanes(count, width) else None


class Addresses(abc.ABC):
    """Emits indices and addresses; the lanes of vectors are positions along the axis `vector`."""

    def __init__(
        self,
        w: Writer,
        pointer: Pointer,
        counters: dict[Axis, str],
        order: tuple[Axis, ...],
        vector: Axis | None,
        width: int,
    ) -> None:
        self.w = w
        self.pointer = pointer
        self.counters = counters
        self.order = order
        self.vector = vector
        self.width = width
        self.is_vector: dict[Value, bool] = {}
        self.neighbors: dict[tuple[Buffer, Index], set[int]] = {}
        """The constants of the elements that every iteration reads, by the rest of their index."""
        self.offsets: dict[tuple[str, Axis, Dim], str] = {}
        self.addresses: dict[tuple[str, str, str], str] = {}

    @abc.abstractmethod
    def compute(self, x: Value) -> str:
        """Return the register of a value."""

    def splat(self, name: str, kind: str, width: int) -> str:
        """Return a vector with a scalar broadcast to all lanes."""
        w = self.w
        first = w.emit(f"insertelement <{width} x {kind}> poison, {kind} {name}, i32 0")
        return w.emit(
            f"shufflevector <{width} x {kind}> {first}, <{width} x {kind}> poison, "
            f"<{width} x i32> zeroinitializer"
        )

    def offset(self, index: Index, depth: int | None = None) -> str:
        """Return the register of the part of an index that is the same for all lanes.

        With a depth, only the terms in the outermost `depth` axes are added.
        """
        w = self.w
        name = w.dim(index.const)
        for axis, factor in sorted(index.axes(), key=lambda term: self._place(term[0])):
            if depth is not None and self._place(axis) > depth:
                return name
            counter = self.counters[axis]
            is_number = counter.isdigit() and name.isdigit() and factor.__class__ is int
            if is_number and factor >= 0:
                name = str(int(name) + int(counter) * factor)
                continue
            key = (name, axis, factor)
            found = self.offsets.get(key)
            if found is None:
                product = counter if factor == 1 else self._times(counter, factor)
                found = product if name == "0" else w.emit(f"add i64 {product}, {name}")
                self.offsets[key] = found
            name = found
        if depth is not None:
            return name
        for value, factor in index.values():
            if self.is_vector[value]:
                continue
            number = self.wide_integer(self.compute(value), value.dtype, 1)
            product = number if factor == 1 else self._times(number, factor)
            name = product if name == "0" else w.emit(f"add i64 {product}, {name}")
        return name

    def _times(self, number: str, factor: Dim) -> str:
        return self.w.emit(f"mul i64 {number}, {self.w.dim(factor)}")

    def _place(self, axis: Axis) -> int:
        return self.order.index(axis) + 1 if axis in self.order else 0

    def wide_integer(self, name: str, dtype: str, width: int) -> str:
        """Return an integer as an i64."""
        kind, wide = type_text(dtype, width), type_text("i64", width)
        if dtype in ("i64", "u64"):
            return name
        how = "zext" if dtype.startswith("u") or dtype == "i1" else "sext"
        return self.w.emit(f"{how} {kind} {name} to {wide}")

    def lanes(self, index: Index) -> str | None:
        """Return the register of the offset that each lane adds to an index; None if contiguous."""
        w, width = self.w, self.width
        factor: Dim = index.factor(self.vector) if self.vector is not None else 0
        dynamic = [(v, f) for v, f in index.values() if self.is_vector[v]]
        if not dynamic and factor == 1:
            return None
        kind = f"<{width} x i64>"
        if type(factor) is Size:
            step = self.splat(w.dim(factor), "i64", width)
            name = w.emit(f"mul {kind} {iota(width)}, {step}")
        else:
            name = iota(width, int(factor))
        for value, f in dynamic:
            number = self.wide_integer(self.compute(value), value.dtype, width)
            if f != 1:
                if type(f) is Size:
                    splat = self.splat(w.dim(f), "i64", width)
                else:
                    splat = instruction(w, value.scope.constant(f, "i64"), (), width)
                number = w.emit(f"mul {kind} {number}, {splat}")
            name = w.emit(f"add {kind} {number}, {name}") if factor != 0 else number
            factor = 1
        return name

    def address(self, buffer: Buffer, index: Index) -> str:
        """Return the address of an element: one that neighbors share, and a constant."""
        place, const = self.pointer(buffer), index.const
        offset = self.offset(without_constant(index))
        if offset.isdigit() and const.__class__ is int:
            const, offset = const + int(offset), "0"
        for each in (offset, self.w.dim(const)):
            if each != "0":
                place = self._moved(place, memory_type(buffer.dtype, 1), each)
        return place

    def _moved(self, place: str, kind: str, offset: str) -> str:
        key = (place, kind, offset)
        found = self.addresses.get(key)
        if found is None:
            found = self.w.emit(f"getelementptr {kind}, ptr {place}, i64 {offset}")
            self.addresses[key] = found
        return found

    def addresses_of(self, buffer: Buffer, index: Index, lanes: str) -> str:
        """Return the register of an address for each lane."""
        base = self.address(buffer, index)
        return self.w.emit(
            f"getelementptr {memory_type(buffer.dtype, 1)}, ptr {base}, "
            f"<{self.width} x i64> {lanes}"
        )

    def stride_of(self, index: Index) -> int:
        """Return the distance of lanes in memory if it is one constant, otherwise 0."""
        if self.vector is None or any(self.is_vector[v] for v in index.operands):
            return 0
        factor = index.factor(self.vector)
        return 0 if isinstance(factor, Size) else factor
