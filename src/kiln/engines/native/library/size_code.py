"""Sizes of named axes as LLVM IR: what a caller's sizes imply for a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kiln.engines.native.loop_ir.extents import Grain
from kiln.ir.sizes.polynomial import Atom, terms_of
from kiln.ir.sizes.size import Dim


class Lines:
    """Instructions of a function under construction."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def emit(self, instruction: str) -> str:
        """Add an instruction; return its result."""
        name = f"%t{self._count}"
        self._count += 1
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Add an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def label(self) -> str:
        """Return a new label."""
        self._count += 1
        return f"b{self._count}"

    def begin(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")

    def when(self, condition: str, status: int) -> None:
        """Return a status if a condition holds."""
        then, after = self.label(), self.label()
        self.do(f"br i1 {condition}, label %{then}, label %{after}, !prof !0")
        self.begin(then)
        self.do(f"ret i32 {status}")
        self.begin(after)


class SizeCode:
    """Emits dimensions, given the registers that hold named sizes; equal ones once."""

    def __init__(self, lines: Lines, names: Mapping[str, str]) -> None:
        self._lines, self._names = lines, names
        self._made: dict[Dim | Grain, str] = {}

    def value(self, dim: Dim | Grain) -> str:
        """Return a dimension as an operand."""
        if isinstance(dim, int):
            return str(dim)
        found = self._made.get(dim)
        if found is None:
            found = self._grain(dim) if isinstance(dim, Grain) else self._sum(dim)
            self._made[dim] = found
        return found

    def _sum(self, dim: Dim) -> str:
        total = "0"
        for atoms, factor in terms_of(dim):
            product = str(factor)
            for atom in atoms:
                product = self._lines.emit(f"mul i64 {product}, {self._atom(atom)}")
            total = self._lines.emit(f"add i64 {total}, {product}")
        return total

    def _atom(self, atom: Atom) -> str:
        kind, *parts = atom
        match kind:
            case "name":
                return self._names[parts[0]]
            case "floordiv":
                return self._floor(self.value(parts[0]), self.value(parts[1]))
        return self._greatest([self.value(dim) for dim in parts[0]])

    def _floor(self, x: str, y: str) -> str:
        emit = self._lines.emit
        whole, rest = emit(f"sdiv i64 {x}, {y}"), emit(f"srem i64 {x}, {y}")
        opposite = emit(f"icmp slt i64 {emit(f'xor i64 {rest}, {y}')}, 0")
        inexact = emit(f"icmp ne i64 {rest}, 0")
        less = emit(f"zext i1 {emit(f'and i1 {opposite}, {inexact}')} to i64")
        return emit(f"sub i64 {whole}, {less}")

    def _greatest(self, values: Sequence[str]) -> str:
        found, *others = values
        for other in others:
            found = self._lines.emit(f"call i64 @llvm.smax.i64(i64 {found}, i64 {other})")
        return found

    def _grain(self, grain: Grain) -> str:
        points = self._greatest([self.value(grain.points), "1"])
        steps = self._greatest([self._floor(str(grain.most), points), "1"])
        up = self._lines.emit(f"add i64 {steps}, {grain.multiple - 1}")
        return self._lines.emit(f"mul i64 {self._floor(up, str(grain.multiple))}, {grain.multiple}")
