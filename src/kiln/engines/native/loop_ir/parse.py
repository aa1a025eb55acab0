"""Loops from their text: what `text.py` prints, so that passes can be tested from text.

The text does not contain source lines and Python callbacks.
"""

from __future__ import annotations

import re

import numpy as np

from kiln.base.errors import three_lines
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, Scope, Value
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
    Role,
    Statement,
    Store,
    While,
    load,
)
from kiln.engines.native.loop_ir.text import number_of

_HEAD = re.compile(r"function (.*)\(([^()]*)\) -> \(([^()]*)\) \{")
_DECLARED = re.compile(r"(%\w+): (\w+)\[(\d+)\]")
_DECLARATION = re.compile(r"(\w+) (%\w+: \w+\[\d+\])(?: = (.*))?")
_VALUE = re.compile(r"(v\d+): (\w+) = (.*)")
_PLACE = re.compile(r"(%\w+)\[([^\]]*)\]")
_NEST = re.compile(r"(nest|ordered) (.*)\{")
_LOOP = re.compile(r"(loop|parallel) (\w+) < (\d+) \{")
_WHILE = re.compile(r"while (%\w+) \{")
_BRANCH = re.compile(r"branch (.*) \{")
_KERNEL = re.compile(r"(?:(.*) )?= (\w+)\((.*)\) \[(.*?)\](?: by (\d+))?")
_EFFECT = re.compile(r"(%\w+\[[^\]]*\]) = (.*)")


def parse(text: str) -> Function:
    """Parse a function.

    Raises: ValueError naming the line that cannot be parsed.
    """
    return _Parser(text).function()


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = [line.strip() for line in text.strip().splitlines()]
        self.at = 0
        self.scope = Scope()
        self.buffers: dict[str, Buffer] = {}
        self.axes: dict[str, Axis] = {}

    @property
    def line(self) -> str:
        return self.lines[self.at] if self.at < len(self.lines) else ""

    def wrong(self, what: str) -> ValueError:
        return ValueError(
            three_lines(
                f"line {self.at + 1} of the text of loops: {self.line!r}",
                what,
                "write what as_text('loops') prints",
            )
        )

    def function(self) -> Function:
        head = _HEAD.fullmatch(self.line)
        if head is None:
            raise self.wrong("a text begins with: function name(inputs) -> (outputs) {")
        inputs = [self.declared(each, Role.INPUT) for each in _split(head[2])]
        outputs = [self.declared(each, Role.OUTPUT) for each in _split(head[3])]
        self.at += 1
        roles = {role.value: role for role in Role}
        while (found := _DECLARATION.fullmatch(self.line)) and found[1] in roles:
            buffer = self.declared(found[2], roles[found[1]])
            if found[3] is not None:
                buffer.role = roles[found[1]]
                buffer.value = _constant(found[3], buffer.dtype)
            self.at += 1
        body = self.statements()
        self.end("}")
        if self.at < len(self.lines):
            raise self.wrong("nothing follows the brace that ends a function")
        return Function(head[1], self.scope, inputs, outputs, body)

    def declared(self, text: str, role: Role) -> Buffer:
        found = _DECLARED.fullmatch(text)
        if found is None or found[2] not in NUMPY_TYPES:
            raise self.wrong(f"{text!r} declares no buffer: %name: type[size]")
        name, dtype, size = found[1], found[2], int(found[3])
        if name not in self.buffers:
            self.buffers[name] = Buffer(name[1:], dtype, size, role)
        return self.buffers[name]

    # Statements.

    def statements(self) -> list[Statement]:
        found: list[Statement] = []
        while self.line and not self.line.startswith("}"):
            found.append(self.statement())
        return found

    def statement(self) -> Statement:
        names = self.values()
        line = self.line
        if match := _NEST.fullmatch(line):
            return self.nest(match[1] == "ordered", match[2])
        if match := _LOOP.fullmatch(line):
            self.at += 1
            axis = self.axis(match[2], int(match[3]))
            return Loop(axis, self.block("}"), parallel=match[1] == "parallel")
        if line == "blocked {":
            self.at += 1
            return Blocked(self.block("}"))
        if match := _WHILE.fullmatch(line):
            self.at += 1
            return While(self.block("} do {"), self.buffer(match[1]), self.block("}"))
        if match := _BRANCH.fullmatch(line):
            number = self.place(match[1], names)
            self.at += 1
            blocks = [self.statements()]
            while self.line == "} else {":
                self.at += 1
                blocks.append(self.statements())
            self.end("}")
            return Branch(number, blocks)
        if match := _KERNEL.fullmatch(line):
            results = [self.place(x, names) for x in _split(match[1] or "")]
            operands = [self.place(x, names) for x in _split(match[3])]
            numbers = [int(n) for n in _split(match[4])]
            self.at += 1
            if match[2] == "copy":
                return Copy(operands[0], results[0], numbers[0])
            return Kernel(match[2], operands, results, numbers, grain=int(match[5] or 0))
        raise self.wrong("this is not a statement")

    def block(self, end: str) -> list[Statement]:
        found = self.statements()
        self.end(end)
        return found

    def end(self, end: str) -> None:
        if self.line != end:
            raise self.wrong(f"{end!r} is missing")
        self.at += 1

    def nest(self, ordered: bool, box: str) -> Nest:
        axes = []
        for each in _split(box.strip()):
            name, _, size = each.partition(" < ")
            if not size.isdigit():
                raise self.wrong(f"{each!r} is not an axis: name < size")
            axes.append(self.axis(name, int(size)))
        self.at += 1
        names = self.values()
        effects = []
        while self.line != "}":
            effects.append(self.effect(names))
        self.at += 1
        return Nest(axes, effects, ordered=ordered)

    def effect(self, names: dict[str, Value]) -> Store | Reduce:
        match = _EFFECT.fullmatch(self.line)
        if match is None:
            raise self.wrong("this neither stores nor reduces: %buffer[index] = ...")
        place, words = self.place(match[1], names), match[2].split()
        made: Store | Reduce
        match words:
            case [value]:
                made = Store(place.buffer, place.index, self.named(value, names))
            case [value, "if", mask]:
                stored, condition = self.named(value, names), self.named(mask, names)
                made = Store(place.buffer, place.index, stored, condition)
            case [op, value]:
                made = Reduce(place.buffer, place.index, op, self.named(value, names))
            case [op, value, "along", axis]:
                along = self.axis(axis)
                made = Reduce(place.buffer, place.index, op, self.named(value, names), along)
            case _:
                raise self.wrong("this neither stores nor reduces: %buffer[index] = ...")
        self.at += 1
        return made

    # Values.

    def values(self) -> dict[str, Value]:
        names: dict[str, Value] = {}
        while match := _VALUE.fullmatch(self.line):
            names[match[1]] = self.value(match[2], match[3], names)
            self.at += 1
        return names

    def value(self, dtype: str, text: str, names: dict[str, Value]) -> Value:
        if _PLACE.fullmatch(text):
            place = self.place(text, names)
            return load(self.scope, place.buffer, place.index)
        op, *words = text.split()
        if op == "index":
            index = self.index(text.removeprefix("index "), names)
            values = index.operands
            return self.scope.node("index", dtype, values, index)
        op, _, attr = op.partition("#")
        numbers = tuple([int(n) for n in attr.split(",")]) if attr else None
        operands = tuple([self.named(word, names) for word in words])
        return self.scope.node(op, dtype, operands, numbers)

    def named(self, word: str, names: dict[str, Value]) -> Value:
        if word in names:
            return names[word]
        text, _, dtype = word.partition(":")
        if dtype not in NUMPY_TYPES:
            raise self.wrong(f"{word!r} is neither a value above nor a constant: number:type")
        bits = number_of(text, dtype).view(f"u{NUMPY_TYPES[dtype].itemsize}")
        return self.scope.bits(int(bits), dtype)

    def place(self, text: str, names: dict[str, Value]) -> Place:
        match = _PLACE.fullmatch(text)
        if match is None:
            raise self.wrong(f"{text!r} is not a place: %buffer[index]")
        return Place(self.buffer(match[1]), self.index(match[2], names))

    def index(self, text: str, names: dict[str, Value]) -> Index:
        const, terms = 0, []
        for part in text.split(" + "):
            name, _, factor = part.partition("*")
            if re.fullmatch(r"-?\d+", name):
                const += int(name)
                continue
            is_value = name in names or ":" in name
            term = self.named(name, names) if is_value else self.axis(name)
            terms.append((term, int(factor or 1)))
        return Index(const, terms)

    def buffer(self, name: str) -> Buffer:
        if name not in self.buffers:
            raise self.wrong(f"the buffer {name} is not declared: temp {name}: type[size]")
        return self.buffers[name]

    def axis(self, name: str, size: int | None = None) -> Axis:
        found = self.axes.get(name)
        if found is None and size is not None:
            found = self.axes[name] = Axis(name, size)
        if found is None or (size is not None and found.size != size):
            raise self.wrong(
                f"the axis {name} is counted by nothing"
                if found is None
                else f"the axis {name} had {found.size} iterations before"
            )
        return found


def _split(text: str) -> list[str]:
    return text.split(", ") if text else []


def _constant(text: str, dtype: str) -> np.ndarray:
    """Return the elements of a constant from the numbers, or bytes, that `text.py` prints."""
    kind = NUMPY_TYPES[dtype]
    if text.startswith("0x") and len(text) > 2 + 2 * kind.itemsize and ", " not in text:
        return np.frombuffer(bytes.fromhex(text[2:]), kind)
    return np.array([number_of(each, dtype) for each in _split(text)], kind)
