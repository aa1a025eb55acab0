"""The text of loops: printed for people and for tests, and read back."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.engines.native.loop_ir import (
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
    Statement,
    Store,
    While,
)
from kiln.engines.native.scalars import Value, number, postorder
from kiln.ir.sizes import Dim, Size


def to_text(function: Function) -> str:
    """Return the text of a function."""
    return _Printer(function).text()


class _Printer:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.lines: list[str] = []
        self.axes: dict[Axis, str] = {}
        self.buffers: dict[Buffer, str] = {}

    def text(self) -> str:
        inputs = ", ".join(self.declared(buffer) for buffer in self.function.inputs)
        outputs = ", ".join(self.declared(buffer) for buffer in self.function.outputs)
        self.statements(self.function.body, 1)
        return "\n".join(
            [f"function {self.function.name}({inputs}) -> ({outputs}) {{", *self.lines, "}", ""]
        )

    def declared(self, buffer: Buffer) -> str:
        return f"{self.buffer(buffer)}: {buffer.dtype}[{buffer.size}]"

    def buffer(self, buffer: Buffer) -> str:
        found = self.buffers.get(buffer)
        if found is None:
            found = self.buffers[buffer] = f"%{buffer.role.value[0]}{len(self.buffers)}"
        return found

    def axis(self, axis: Axis) -> str:
        found = self.axes.get(axis)
        if found is None:
            taken = set(self.axes.values())
            found, number = axis.name, 0
            while found in taken:
                number += 1
                found = f"{axis.name}_{number}"
            self.axes[axis] = found
        return found

    def statements(self, statements: Sequence[Statement], depth: int) -> None:
        for statement in statements:
            self.statement(statement, depth)

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def statement(self, statement: Statement, depth: int) -> None:
        match statement:
            case Nest():
                self.nest(statement, depth)
            case Loop():
                kind = "parallel" if statement.parallel else "loop"
                self.line(depth, f"{kind} {self.axis(statement.axis)} < {statement.axis.size} {{")
                self.statements(statement.body, depth + 1)
                self.line(depth, "}")
            case While():
                self.line(depth, f"while {self.buffer(statement.flag)} {{")
                self.statements(statement.condition, depth + 1)
                self.line(depth, "} do {")
                self.statements(statement.body, depth + 1)
                self.line(depth, "}")
            case Branch():
                self.line(depth, f"branch {self.place(statement.number)} {{")
                for i, block in enumerate(statement.blocks):
                    if i:
                        self.line(depth, "} else {")
                    self.statements(block, depth + 1)
                self.line(depth, "}")
            case Kernel():
                operands = ", ".join(map(self.place, statement.operands))
                results = ", ".join(map(self.place, statement.results))
                numbers = ", ".join(map(str, statement.numbers))
                self.line(depth, f"{results} = {statement.symbol}({operands}) [{numbers}]")
            case Copy():
                self.line(
                    depth,
                    f"{self.place(statement.result)} = copy({self.place(statement.operand)}) "
                    f"[{statement.count}]",
                )

    def place(self, place: Place) -> str:
        return f"{self.buffer(place.buffer)}[{self.index(place.index, {})}]"

    def nest(self, nest: Nest, depth: int) -> None:
        box = ", ".join(f"{self.axis(axis)} < {axis.size}" for axis in nest.axes)
        self.line(depth, f"{'ordered' if nest.ordered else 'nest'} {box} {{".replace("  ", " "))
        roots = [effect.value for effect in nest.effects]
        for effect in nest.effects:
            roots += [value for value, _ in effect.index.values()]
            if isinstance(effect, Store) and effect.mask is not None:
                roots.append(effect.mask)
        names: dict[Value, str] = {}
        for x in postorder(roots):
            if x.op == "constant":
                names[x] = f"{number(x)}:{x.dtype}"
                continue
            names[x] = f"v{len(names)}"
            self.line(depth + 1, f"{names[x]}: {x.dtype} = {self.value(x, names)}")
        for effect in nest.effects:
            place = f"{self.buffer(effect.buffer)}[{self.index(effect.index, names)}]"
            if isinstance(effect, Reduce):
                along = f" along {self.axis(effect.along)}" if effect.along else ""
                self.line(depth + 1, f"{place} = {effect.op} {names[effect.value]}{along}")
            else:
                mask = f" if {names[effect.mask]}" if effect.mask is not None else ""
                self.line(depth + 1, f"{place} = {names[effect.value]}{mask}")
        self.line(depth, "}")

    def value(self, x: Value, names: dict[Value, str]) -> str:
        if x.op == "load":
            buffer, index = x.attr
            rest = [names[y] for y in x.operands[sum(1 for _ in index.values()) :]]
            mask = f" if {rest[0]} else {rest[1]}" if rest else ""
            return f"{self.buffer(buffer)}[{self.index(index, names)}]{mask}"
        if x.op == "index":
            return f"index {self.index(x.attr, names)}"
        if x.op == "size":
            return f"size {x.attr}"
        return " ".join([x.op, *[names[y] for y in x.operands]])

    def index(self, index: Index, names: dict[Value, str]) -> str:
        parts = [
            f"{names.get(t, 'value') if isinstance(t, Value) else self.axis(t)}"
            + (f"*{_factor(f)}" if f != 1 else "")
            for t, f in index.terms
        ]
        if index.const != 0 or not parts:
            parts.append(str(index.const))
        return " + ".join(parts)


def _factor(factor: Dim) -> str:
    """Return a factor; a sum of sizes in parentheses."""
    is_sum = type(factor) is Size and len(factor.terms) > 1
    return f"({factor})" if is_sum else str(factor)
