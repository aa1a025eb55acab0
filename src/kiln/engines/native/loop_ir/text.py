"""The text of loops, for people and for tests; `parse.py` reads it back.

Buffers that are neither inputs nor outputs are declared first. If an index contains computed
values, the lines before the statement define them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.engines.native.loop_ir.buffers import roots_of
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, Value, is_float, number, postorder
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Blocked,
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
    While,
)
from kiln.ir.sizes.size import Dim, Size

MOST_SHOWN = 16
"""A constant with more elements is printed as bytes."""


def to_text(function: Function) -> str:
    """Return the text of a function."""
    return _Printer(function).text()


def lines_of(function: Function) -> list[tuple[str, Statement | None]]:
    """Return the lines of the text of a function, each with the innermost statement it is of."""
    printer = _Printer(function)
    text = printer.text().splitlines()
    declared = len(text) - len(printer.lines) - 1
    owners = [*[None] * declared, *printer.owners, None]
    return list(zip(text, owners, strict=True))


def headings(function: Function) -> dict[Statement, str]:
    """Return one line per statement: its box and what it writes, or its kernel."""
    printer = _Printer(function)
    printer.text()
    return {statement: printer.heading(statement) for statement in printer.seen}


def buffer_names(function: Function) -> dict[Buffer, str]:
    """Return the names that buffers have in the text of a function."""
    printer = _Printer(function)
    printer.text()
    return printer.buffers


class _Printer:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.lines: list[str] = []
        self.owners: list[Statement | None] = []
        self.owner: Statement | None = None
        self.axes: dict[Axis, str] = {}
        self.buffers: dict[Buffer, str] = {}
        self.seen: list[Statement] = []

    def text(self) -> str:
        inputs = ", ".join(self.declared(buffer) for buffer in self.function.inputs)
        outputs = ", ".join(self.declared(buffer) for buffer in self.function.outputs)
        self.statements(self.function.body, 1)
        head = f"function {self.function.name}({inputs}) -> ({outputs}) {{"
        known = {*self.function.inputs, *self.function.outputs}
        declared = [
            self.declaration(b) for b in self.buffers if b not in known or b.value is not None
        ]
        return "\n".join([head, *declared, *self.lines, "}", ""])

    def declaration(self, buffer: Buffer) -> str:
        text = f"  {buffer.role.value} {self.declared(buffer)}"
        if buffer.value is None:
            return text
        values = np.ravel(buffer.value)
        if values.size > MOST_SHOWN:
            return f"{text} = 0x{buffer.value.tobytes().hex()}"
        return f"{text} = {', '.join(number_text(x, buffer.dtype) for x in values)}"

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
        self.owners.append(self.owner)

    def heading(self, statement: Statement) -> str:
        """Describe a statement in one line."""
        match statement:
            case Nest():
                box = " x ".join(str(axis.size) for axis in statement.axes) or "1"
                to = ", ".join(dict.fromkeys(self.buffer(x.buffer) for x in statement.effects))
                return f"nest {box} -> {to}"
            case Loop():
                kind = "parallel loop" if statement.parallel else "loop"
                return f"{kind} of {statement.axis.size}"
            case While():
                return "while"
            case Branch():
                return f"branch of {len(statement.blocks)}"
            case Kernel():
                to = ", ".join(dict.fromkeys(self.buffer(x.buffer) for x in statement.results))
                return f"{statement.symbol} -> {to}"
            case Blocked():
                return f"{statement.product.symbol}, {self.heading(statement.epilogue)}"
            case Copy():
                return f"copy -> {self.buffer(statement.result.buffer)}"

    def statement(self, statement: Statement, depth: int) -> None:
        outer, self.owner = self.owner, statement
        self.seen.append(statement)
        self.written(statement, depth)
        self.owner = outer

    def written(self, statement: Statement, depth: int) -> None:
        match statement:
            case Nest():
                self.nest(statement, depth)
            case Loop():
                kind = "parallel" if statement.parallel else "loop"
                self.line(depth, f"{kind} {self.axis(statement.axis)} < {statement.axis.size} {{")
                self.statements(statement.body, depth + 1)
                self.line(depth, "}")
            case Blocked():
                self.line(depth, "blocked {")
                self.statements(statement.body, depth + 1)
                self.line(depth, "}")
            case While():
                self.line(depth, f"while {self.buffer(statement.flag)} {{")
                self.statements(statement.condition, depth + 1)
                self.line(depth, "} do {")
                self.statements(statement.body, depth + 1)
                self.line(depth, "}")
            case Branch():
                names = self.numbers([statement.number], depth)
                self.line(depth, f"branch {self.place(statement.number, names)} {{")
                for i, block in enumerate(statement.blocks):
                    if i:
                        self.line(depth, "} else {")
                    self.statements(block, depth + 1)
                self.line(depth, "}")
            case Kernel():
                names = self.numbers([*statement.operands, *statement.results], depth)
                operands = ", ".join([self.place(x, names) for x in statement.operands])
                results = "".join([f"{self.place(x, names)}, " for x in statement.results])
                numbers = ", ".join(map(str, statement.numbers))
                grain = f" by {statement.grain}" if statement.grain else ""
                text = f"{statement.symbol}({operands}) [{numbers}]{grain}"
                self.line(depth, f"{results[:-2]} = {text}" if results else f"= {text}")
            case Copy():
                names = self.numbers([statement.operand, statement.result], depth)
                operand, result = (
                    self.place(x, names) for x in (statement.operand, statement.result)
                )
                self.line(depth, f"{result} = copy({operand}) [{statement.count}]")

    def place(self, place: Place, names: dict[Value, str]) -> str:
        return f"{self.buffer(place.buffer)}[{self.index(place.index, names)}]"

    def numbers(self, places: Sequence[Place], depth: int) -> dict[Value, str]:
        """Print the values in the indices of places, and return their names."""
        return self.values([x for place in places for x in place.index.operands], depth)

    def values(self, roots: Sequence[Value], depth: int) -> dict[Value, str]:
        """Print the lines of expressions, and return the names of their nodes."""
        names: dict[Value, str] = {}
        for x in postorder(roots):
            if x.op == "constant":
                names[x] = f"{number_text(number(x), x.dtype)}:{x.dtype}"
                continue
            names[x] = f"v{len(names)}"
            self.line(depth, f"{names[x]}: {x.dtype} = {self.value(x, names)}")
        return names

    def nest(self, nest: Nest, depth: int) -> None:
        box = ", ".join(f"{self.axis(axis)} < {axis.size}" for axis in nest.axes)
        self.line(depth, f"{'ordered' if nest.ordered else 'nest'} {box} {{".replace("  ", " "))
        names = self.values(roots_of(nest), depth + 1)
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
            return f"{self.buffer(buffer)}[{self.index(index, names)}]"
        if x.op == "index":
            return f"index {self.index(x.attr, names)}"
        if x.op == "size":
            return f"size {x.attr}"
        attr = "" if x.attr is None else "#" + ",".join(map(str, x.attr))
        return " ".join([x.op + attr, *[names[y] for y in x.operands]])

    def index(self, index: Index, names: dict[Value, str]) -> str:
        parts = [
            f"{names[t] if isinstance(t, Value) else self.axis(t)}"
            + (f"*{_factor(f)}" if f != 1 else "")
            for t, f in index.terms
        ]
        if index.const != 0 or not parts:
            parts.append(str(index.const))
        return " + ".join(parts)


def number_text(x: Any, dtype: str) -> str:
    """Return a number as text that parses to the same bits: unusual nans in hex."""
    kind = NUMPY_TYPES[dtype]
    value = np.asarray(x, kind)
    text, pattern = str(value[()]), f"u{kind.itemsize}"
    bits = int(value.view(pattern))
    return text if int(number_of(text, dtype).view(pattern)) == bits else hex(bits)


def number_of(text: str, dtype: str) -> np.ndarray:
    """Return the number that `number_text` printed, as an array without axes."""
    kind = NUMPY_TYPES[dtype]
    if text.startswith("0x"):
        return np.asarray(int(text, 16), f"u{kind.itemsize}").view(kind)
    if dtype == "i1":
        return np.asarray(text == "True")
    return np.asarray(float(text) if is_float(dtype) else int(text)).astype(kind)


def _factor(factor: Dim) -> str:
    """Return a factor; a sum of sizes in parentheses."""
    is_sum = type(factor) is Size and len(factor.terms) > 1
    return f"({factor})" if is_sum else str(factor)
