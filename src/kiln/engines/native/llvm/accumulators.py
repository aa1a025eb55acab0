"""The accumulators of reductions, as LLVM IR."""

from __future__ import annotations

from kiln.engines.native.llvm.addresses import ALL_LANES, iota
from kiln.engines.native.llvm.instructions import instruction, type_text
from kiln.engines.native.llvm.values import Frame
from kiln.engines.native.loop_ir.identities import identity
from kiln.engines.native.loop_ir.scalars import Scope, Value, is_float
from kiln.engines.native.loop_ir.statements import Index, Reduce


class Accumulator:
    """The values that a reduction carries through its loops; the first `kept` axes are kept."""

    def __init__(self, code: Frame, kept: int, reduce: Reduce) -> None:
        self.code = code
        self.reduce = reduce
        self.scope: Scope = reduce.value.scope
        vector = code.vector
        self.across = vector is not None and vector in code.order[kept:]
        self.width = 1 if vector is None else code.width
        if not self.across and not any(axis is vector for axis, _ in reduce.index.axes()):
            self.width = 1
        self.dtype = reduce.value.dtype
        self.count = 1 if reduce.along is None else 2
        self.rising = code.order[kept:] == (reduce.along,)
        """Whether positions only increase, so that a later one is never the first of equals."""

    def _identity(self) -> Value:
        return identity(self.scope, self.reduce.op, self.dtype)

    def initial(self) -> list[tuple[str, str]]:
        """Return the types and initial values."""
        width = self.width
        start = instruction(self.code.w, self._identity(), (), width)
        found = [(type_text(self.dtype, width), start)]
        if self.count == 2:
            if not self.rising:
                place = instruction(self.code.w, self.scope.constant(-1, "i32"), (), width)
            elif self.across and width > 1:
                place = iota(width).replace("i64", "i32")
            else:
                # If no number is better than the worst, the first wins.
                place = instruction(self.code.w, self.scope.constant(0, "i32"), (), width)
            found.append((type_text("i32", width), place))
        return found

    def combined(self, values: list[str]) -> list[str]:
        """Combine the accumulators with the values of a point."""
        code, width = self.code, self.width
        value = code.operand(self.reduce.value, width)
        if self.count == 2:
            found = [value, self._place()]
            if self.rising:
                return self._later(values, found, width, code.mask)
            return self._nearer(values, found, width, code.mask)
        if code.mask is not None and self.across:
            rest = instruction(code.w, self._identity(), (), width)
            kind = type_text(self.dtype, width)
            value = code.w.emit(f"select <{width} x i1> {code.mask}, {kind} {value}, {kind} {rest}")
        return [self._apply(values[0], value, width)]

    def _place(self) -> str:
        assert self.reduce.along is not None
        axis = self.reduce.along
        index = Index(0, ((axis, 1),))
        return (
            self.code.number(index, "i32", self.width if axis is self.code.vector else 1)
            if (self.width == 1 or axis is self.code.vector)
            else self.code.splat(self.code.number(index, "i32", 1), "i32", self.width)
        )

    def _apply(self, x: str, y: str, width: int) -> str:
        node = self.scope.constant(0, self.dtype)
        made = self.scope.node(self.reduce.op, self.dtype, (node, node))
        return instruction(self.code.w, made, [x, y], width)

    def _compare(self, how: str, x: str, y: str, dtype: str, width: int) -> str:
        node = self.scope.constant(0, dtype)
        made = self.scope.node(how, "i1", (node, node))
        return instruction(self.code.w, made, [x, y], width)

    def _later(self, best: list[str], found: list[str], width: int, mask: str | None) -> list[str]:
        """Keep the better of two pairs of value and position, the first if they are equal."""
        w, flags = self.code.w, type_text("i1", width)
        x, y = best[0], found[0]
        if is_float(self.dtype):
            # Better than the best, or one of them is nan: the first nan is kept.
            how = "le" if self.reduce.op == "argmax" else "ge"
            take = self._compare(how, y, x, self.dtype, width)
            take = w.emit(f"xor {flags} {take}, {_true(width)}")
            number = self._compare("eq", x, x, self.dtype, width)
            take = w.emit(f"and {flags} {take}, {number}")
        else:
            how = "gt" if self.reduce.op == "argmax" else "lt"
            take = self._compare(how, y, x, self.dtype, width)
        return self._selected(take, best, found, width, mask)

    def _nearer(self, best: list[str], found: list[str], width: int, mask: str | None) -> list[str]:
        """Keep the better of two pairs of value and position; of equal ones the first."""
        w, flags = self.code.w, type_text("i1", width)
        how = "gt" if self.reduce.op == "argmax" else "lt"
        (x, at), (y, place) = best, found
        better = self._compare(how, y, x, self.dtype, width)
        tie = self._compare("eq", y, x, self.dtype, width)
        before = self._compare("lt", place, at, "i32", width)
        if is_float(self.dtype):
            y_nan = self._compare("ne", y, y, self.dtype, width)
            x_nan = self._compare("ne", x, x, self.dtype, width)
            fresh = w.emit(f"xor {flags} {x_nan}, {_true(width)}")
            first_nan = w.emit(f"and {flags} {y_nan}, {fresh}")
            better = w.emit(f"or {flags} {better}, {first_nan}")
            both = w.emit(f"and {flags} {y_nan}, {x_nan}")
            tie = w.emit(f"or {flags} {tie}, {both}")
        earlier = w.emit(f"and {flags} {tie}, {before}")
        take = w.emit(f"or {flags} {better}, {earlier}")
        if not self.rising:
            zero = instruction(w, self.scope.constant(0, "i32"), (), width)
            none = self._compare("lt", at, zero, "i32", width)
            take = w.emit(f"or {flags} {take}, {none}")
            exists = self._compare("ge", place, zero, "i32", width)
            take = w.emit(f"and {flags} {take}, {exists}")
        return self._selected(take, best, found, width, mask)

    def _selected(
        self, take: str, best: list[str], found: list[str], width: int, mask: str | None
    ) -> list[str]:
        w, flags = self.code.w, type_text("i1", width)
        if mask is not None and self.across:
            take = w.emit(f"and {flags} {take}, {mask}")
        kinds = (type_text(self.dtype, width), type_text("i32", width))
        return [
            w.emit(f"select {flags} {take}, {kind} {y}, {kind} {x}")
            for kind, x, y in zip(kinds, best, found, strict=True)
        ]

    def finish(self, values: list[str]) -> None:
        """Combine the lanes if they belong to one result, and store it."""
        code, width = self.code, self.width
        if self.across:
            values, width = self.lanes(values), 1
        name, dtype = values[-1], "i32" if self.count == 2 else self.dtype
        buffer = self.reduce.buffer
        if dtype != buffer.dtype:
            node = self.scope.node("convert", buffer.dtype, (self.scope.constant(0, dtype),))
            name = instruction(code.w, node, [name], width)
        mask = code.mask if width > 1 else None
        code.write_element(buffer, self.reduce.index, name, mask, width)

    def lanes(self, values: list[str]) -> list[str]:
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
                        made = w.emit(f"extractelement <1 x {type_text(dtype, 1)}> {made}, i32 0")
                    parts[i].append(made)
            if self.count == 2:
                values = self._nearer(parts[0], parts[1], half, None)
            else:
                values = [self._apply(parts[0][0], parts[1][0], half)]
            width = half
        return values


def _true(width: int) -> str:
    return "1" if width == 1 else ALL_LANES
