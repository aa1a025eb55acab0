"""Random programs of loops, as text, in which much is computed twice; and what they mean.

Buffers have `SIZE` integers. A program reads only what is written on every path to the statement,
so what passes leave undefined is never read. Kernels are functions that only their names, numbers
and operands determine.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kiln.engines.native.loop_ir.scalars import Value, number
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
    Statement,
    While,
)

SIZE = 4
OUTPUTS = ("%o2", "%o3")
_OPERATIONS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "lt": operator.lt}
_COUNTS = tuple([f"n{i}" for i in range(8)])


class _Writer:
    """Writes statements; `defined` buffers are those written on every path."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.loops = 0
        self.flags = 0
        self.temporaries = ["%t4"]
        self.written: list[tuple[list[str], set[str]]] = []
        """What was computed, for results named `%to`, and its operands."""

    def choose(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def block(self, defined: set[str], depth: int, axis: str | None) -> None:
        for _ in range(self.draw(st.integers(1, 5))):
            kinds = ["nest", "kernel", "kernel", "halves", "copy", "in place", *["again"] * 6]
            if depth < 2 and self.loops < 8:
                kinds += ["loop", "branch", "branch", "while", "iterated", "iterated"]
                kinds += ["recurrence", "recurrence"]
            getattr(self, self.choose(kinds).replace(" ", "_"))(defined, depth, axis)

    def result(self) -> str:
        """Return a buffer to write, most often a new one."""
        new = f"%t{4 + len(self.temporaries)}"
        found = str(self.choose([new] * 6 + [*OUTPUTS, self.choose(self.temporaries)]))
        if found == new:
            self.temporaries.append(new)
        return found

    def add(self, lines: list[str], operands: set[str], to: str, defined: set[str]) -> None:
        """Write a computation of a result."""
        self.written.append((lines, operands))
        self.lines += [line.replace("%to", to) for line in lines]
        defined.add(to)

    def again(self, defined: set[str], depth: int, axis: str | None) -> None:
        """Write what was written before, for another result."""
        to = self.result()
        known = [
            (lines, operands)
            for lines, operands in self.written[-6:]
            if operands <= defined - {to}
            and all(t not in " ".join(lines) or t == axis for t in _COUNTS)
        ]
        if known:
            lines, operands = self.choose(known)
            self.add(lines, operands, to, defined)

    def operand(self, defined: set[str], axis: str | None) -> tuple[str, str]:
        """Return a buffer and an index over i0; few, so that they repeat."""
        indices = ["i0", "i0", "i0", "i0*-1 + 3", "1"] + ([axis] if axis else [])
        return self.choose(sorted(defined)), self.choose(indices)

    def nest(self, defined: set[str], depth: int, axis: str | None) -> None:
        to = self.result()
        first, second = (self.operand(defined - {to}, axis) for _ in range(2))
        lines = [
            "nest i0 < 4 {",
            f"v0: i64 = {first[0]}[{first[1]}]",
            f"v1: i64 = {second[0]}[{second[1]}]",
            f"v2: i64 = {self.choose(['add', 'sub', 'mul'])} v0 v1",
            "%to[i0] = v2",
            "}",
        ]
        self.add(lines, {first[0], second[0]}, to, defined)

    def halves(self, defined: set[str], depth: int, axis: str | None) -> None:
        to = self.result()
        of = [self.operand(defined - {to}, None)[0] for _ in range(2)]
        order = self.choose([(0, 1), (1, 0)])
        lines = []
        for half in order:
            lines += [
                "nest i1 < 2 {",
                f"v0: i64 = {of[half]}[i1 + {half}]",
                f"%to[i1 + {2 * half}] = v0",
                "}",
            ]
        self.add(lines, set(of), to, defined)

    def in_place(self, defined: set[str], depth: int, axis: str | None) -> None:
        changed = sorted(x for x in defined if x[1] != "i")
        to = self.choose(changed)
        where = self.choose(["i0", axis or "2"])
        box = "nest i0 < 4 {" if where == "i0" else "nest {"
        text = [f"v0: i64 = {to}[{where}]", "v1: i64 = add v0 3:i64", f"{to}[{where}] = v1"]
        self.lines += [box, *text, "}"]

    def kernel(self, defined: set[str], depth: int, axis: str | None) -> None:
        to = self.result()
        of = [self.choose(sorted(defined - {to})) for _ in range(2)]
        effects = self.choose(["dear"] * 8 + ["kiln_draw_counters"])
        line = f"%to[0] = {effects}({of[0]}[0], {of[1]}[0]) [{self.choose([1, 2])}]"
        self.add([line], set(of), to, defined)

    def copy(self, defined: set[str], depth: int, axis: str | None) -> None:
        to = self.result()
        of = self.choose(sorted(defined - {to}))
        self.add([f"%to[0] = copy({of}[0]) [4]"], {of}, to, defined)

    def loop(self, defined: set[str], depth: int, axis: str | None) -> None:
        count = _COUNTS[self.loops]
        self.loops += 1
        self.lines.append(f"loop {count} < 3 {{")
        self.block(set(defined), depth + 1, count)
        self.lines.append("}")

    def branch(self, defined: set[str], depth: int, axis: str | None) -> None:
        self.lines.append(f"branch %i12[{self.choose([0, 1, 2])}] {{")
        self.block(set(defined), depth + 1, axis)
        self.lines.append("} else {")
        self.block(set(defined), depth + 1, axis)
        self.lines.append("}")

    def iterated(self, defined: set[str], depth: int, axis: str | None) -> None:
        """Write a loop whose iterations compute elements from the same elements, and a number."""
        self.loops += 1
        self.flags += 1
        flag, count = f"%f{self.flags}", f"%c{self.flags}"
        counted = self.draw(st.booleans())
        most = 3 if counted else self.choose([0, 1, 3])
        self.lines += ["nest {", f"{count}[0] = 0:i64", "}"]
        if counted:
            self.lines.append(f"loop {_COUNTS[self.loops - 1]} < {most} {{")
        else:
            self.lines += [f"while {flag} {{", "nest {", f"v0: i64 = {count}[0]"]
            self.lines += [f"v1: i1 = lt v0 {most}:i64", f"{flag}[0] = v1", "}", "} do {"]
        inside = set(defined)
        number = self.draw(st.integers(0, 3))
        for i in range(4):
            if i == number:
                self.lines += ["nest {", f"v0: i64 = {count}[0]", "v1: i64 = add v0 1:i64"]
                self.lines += [f"{count}[0] = v1", "}"]
            elif self.draw(st.booleans()):
                to = self.choose(sorted(x for x in inside if x[1] != "i") + [self.result()])
                of = [
                    self.choose([f"{x}[i0]" for x in sorted(inside)] + [f"{count}[0]"])
                    for _ in "ab"
                ]
                self.lines += ["nest i0 < 4 {", f"v0: i64 = {of[0]}", f"v1: i64 = {of[1]}"]
                self.lines += [
                    f"v2: i64 = {self.choose(['add', 'mul'])} v0 v1",
                    f"{to}[i0] = v2",
                    "}",
                ]
                inside.add(to)
        self.lines.append("}")

    def recurrence(self, defined: set[str], depth: int, axis: str | None) -> None:
        """Write a loop that stores elements near those that it loads, and maybe its counter."""
        t = _COUNTS[self.loops]
        self.loops += 1
        self.flags += 1
        count = f"%c{self.flags}"
        stored = sorted(x for x in defined if x[1] != "i")
        step, least, most = self.choose([(t, 0, 2), (t, 0, 2), (f"{t}*-1", 1, 3), (f"{t}*2", 0, 1)])
        places = [f"{step} + {k}" for k in range(least, most + 1)]
        if depth == 1 and axis:
            places.append(axis)
        self.lines += ["nest {", f"{count}[0] = {self.choose([0, 1])}:i64", "}"]
        self.lines.append(f"loop {t} < 2 {{")
        if self.draw(st.booleans()):
            self.lines += ["nest {", f"v0: i64 = {count}[0]"]
            for at in self.draw(st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True)):
                self.lines.append(f"{self.choose(stored)}[{at}] = v0")
            self.lines.append("}")
        self.lines.append("nest {")
        for i in range(3):
            of, at = self.choose(sorted(defined)), self.choose([*places, "1"])
            self.lines.append(f"v{i}: i64 = {of}[{at}]")
        self.lines += ["v3: i64 = mul v0 3:i64", "v4: i64 = add v3 v1", "v5: i64 = sub v4 v2"]
        chosen = self.draw(
            st.lists(
                st.tuples(st.sampled_from(stored), st.sampled_from(places)),
                min_size=1,
                max_size=3,
                unique=True,
            )
        )
        self.lines += [f"{to}[{at}] = v{5 - i}" for i, (to, at) in enumerate(chosen)]
        self.lines += ["}", "nest {", f"v0: i64 = {count}[0]", "v1: i64 = add v0 1:i64"]
        self.lines += [f"{count}[0] = v1", "}", "}"]

    def _while(self, defined: set[str], depth: int, axis: str | None) -> None:
        self.loops += 1
        self.flags += 1
        flag, count = f"%f{self.flags}", f"%c{self.flags}"
        most = self.choose([0, 1, 3])
        self.lines += ["nest {", f"{count}[0] = 0:i64", "}", f"while {flag} {{"]
        inside = set(defined)
        if self.draw(st.booleans()):
            self.kernel(inside, depth, axis)
        self.lines += ["nest {", f"v0: i64 = {count}[0]", f"v1: i1 = lt v0 {most}:i64"]
        self.lines += [f"{flag}[0] = v1", "}", "} do {"]
        self.block(inside, depth + 1, axis)
        self.lines += ["nest {", f"v0: i64 = {count}[0]", "v1: i64 = add v0 1:i64"]
        self.lines += [f"{count}[0] = v1", "}", "}"]


setattr(_Writer, "while", _Writer._while)


@st.composite
def loop_programs(draw: Any) -> str:
    """Draw the text of a function of two arrays and three numbers of branches."""
    writer = _Writer(draw)
    for to in OUTPUTS:
        writer.lines += ["nest i0 < 4 {", "v0: i64 = %i0[i0]", f"{to}[i0] = v0", "}"]
    defined = {"%i0", "%i1", *OUTPUTS}
    for _ in range(3):
        writer.block(defined, 0, None)
    # Results depend on what was computed.
    for name in sorted(defined - {"%i0", "%i1", "%o2"}):
        if draw(st.booleans()):
            continue
        own = "%o2[i0]"
        writer.lines += ["nest i0 < 4 {", f"v0: i64 = {own}", f"v1: i64 = {name}[i0]"]
        writer.lines += ["v2: i64 = mul v0 5:i64", "v3: i64 = add v2 v1", f"{own} = v3", "}"]
    inputs = "%i0: i64[4], %i1: i64[4], %i12: i32[3]"
    temps = [f"temp {name}: i64[4]" for name in writer.temporaries]
    for i in range(1, writer.flags + 1):
        temps += [f"temp %f{i}: i1[1]", f"temp %c{i}: i64[1]"]
    head = f"function f({inputs}) -> (%o2: i64[4], %o3: i64[4]) {{"
    return "\n".join([head, *temps, *writer.lines, "}", ""])


class Meaning:
    """Runs the statements of a function one by one, and counts the calls of kernels."""

    def __init__(self, function: Function, inputs: Sequence[np.ndarray]) -> None:
        self.memory: dict[Buffer, np.ndarray] = {
            buffer: x.copy() for buffer, x in zip(function.inputs, inputs, strict=True)
        }
        self.calls: Counter[str] = Counter()
        self._at: dict[Axis, int] = {}
        with np.errstate(all="ignore"):
            self._run(function.body)
        self.results = [self.memory[buffer] for buffer in function.outputs]

    def _data(self, buffer: Buffer) -> np.ndarray:
        found = self.memory.get(buffer)
        if found is None:
            # Undefined elements are not read: see above.
            kind = {"i64": np.int64, "i32": np.int32, "i1": np.bool_}[buffer.dtype]
            found = self.memory[buffer] = np.full(int(buffer.size), 99, kind)
        return found

    def _place(self, index: Index) -> int:
        found = int(index.const) + sum(self._at[axis] * int(f) for axis, f in index.axes())
        return found + sum(int(self._value(x)) * int(f) for x, f in index.values())

    def _elements(self, place: Place) -> np.ndarray:
        return self._data(place.buffer)[self._place(place.index) :]

    def _value(self, x: Value) -> Any:
        if x.op == "constant":
            return number(x)
        if x.op == "load":
            buffer, index = x.attr
            return self._data(buffer)[self._place(index)]
        if x.op == "index":
            return np.int64(self._place(x.attr))
        return _OPERATIONS[x.op](*[self._value(y) for y in x.operands])

    def _run(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            match statement:
                case Nest():
                    self._nest(statement)
                case Kernel():
                    self.calls[statement.symbol] += 1
                    drawn = self.calls["kiln_draw_counters"]
                    salt = 7 * drawn if statement.symbol == "kiln_draw_counters" else 0
                    a, b = (self._elements(x) for x in statement.operands)
                    made = a * 3 + b[::-1] * 5 + int(statement.numbers[0]) + salt
                    self._elements(statement.results[0])[:] = made
                case Copy():
                    self._elements(statement.result)[:] = self._elements(statement.operand)
                case Loop():
                    for i in range(int(statement.axis.size)):
                        self._at[statement.axis] = i
                        self._run(statement.body)
                case Branch():
                    (chosen,) = self._elements(statement.number)[:1]
                    last = len(statement.blocks) - 1
                    self._run(statement.blocks[min(max(int(chosen), 0), last)])
                case While():
                    self._run(statement.condition)
                    while self._data(statement.flag)[0]:
                        self._run(statement.body)
                        self._run(statement.condition)

    def _nest(self, nest: Nest) -> None:
        combined = set[tuple[Buffer, int]]()
        for point in np.ndindex(*[int(axis.size) for axis in nest.axes]):
            self._at.update(zip(nest.axes, point, strict=True))
            values = [self._value(effect.value) for effect in nest.effects]
            for effect, value in zip(nest.effects, values, strict=True):
                data, place = self._data(effect.buffer), self._place(effect.index)
                if isinstance(effect, Reduce):
                    if (effect.buffer, place) in combined:
                        value = _OPERATIONS[effect.op](data[place], value)
                    combined.add((effect.buffer, place))
                data[place] = value


def operands(numbers: Sequence[int]) -> list[np.ndarray]:
    """Return the arrays of a program, and the numbers of its branches."""
    x = np.arange(SIZE, dtype=np.int64)
    return [x * x + 2, 11 - 3 * x, np.array(numbers, np.int32)]
