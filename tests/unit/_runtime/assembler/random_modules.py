"""Random functions of all instructions that the assembler knows, with many values alive at once.

Whatever could be nan is made a number before its bits are looked at: which nan an operation gives
is nobody's promise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.unit._runtime.assembler.running import OPERAND_BYTES

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64}
INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("float", "double")
SUFFIX = {"float": "f32", "double": "f64"}
ORDERS = ("oeq", "olt", "ole", "ogt", "oge", "one", "ord", "uno", "une", "ueq", "ult", "uge")
RELATIONS = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


@dataclasses.dataclass
class RandomModule:
    """Draws `void @run(ptr %out, ptr %x0)` over vectors of this many lanes."""

    rng: np.random.Generator
    lanes: int
    register_bytes: int = 64
    lines: list[str] = dataclasses.field(default_factory=list)
    pools: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    parts: list[str] = dataclasses.field(default_factory=list)
    names: int = 0
    block: str = "entry"

    def pick(self, items: Sequence[Any]) -> Any:
        """Return one of some items."""
        return items[int(self.rng.integers(len(items)))]

    def kind(self, element: str, lanes: int | None = None) -> str:
        """Return the type of a number or vector."""
        lanes = self.lanes if lanes is None else lanes
        return element if lanes == 1 else f"<{lanes} x {element}>"

    def suffix(self, element: str) -> str:
        """Return how intrinsics name a type."""
        name = SUFFIX.get(element, element)
        return name if self.lanes == 1 else f"v{self.lanes}{name}"

    def emit(self, text: str) -> str:
        """Write an instruction and return its name."""
        self.names += 1
        self.lines.append(f"  %v{self.names} = {text}")
        return f"%v{self.names}"

    def keep(self, element: str, text: str) -> str:
        """Write an instruction whose result others may use."""
        name = self.emit(text)
        self.pools.setdefault(element, []).append(name)
        return name

    def value(self, element: str) -> str:
        """Return a value computed before."""
        return str(self.pick(self.pools[element]))

    def operand(self, element: str) -> str:
        """Return a value, or now and then a constant."""
        if self.rng.random() < 0.8 or element == "i1":
            return self.value(element)
        return self.constant(element)

    def constant(self, element: str) -> str:
        """Return a constant, the same or another in each lane."""

        def number() -> str:
            if element == "i1":
                return str(int(self.rng.integers(2)))
            if element in FLOATS:
                x = float(np.float32(self.rng.normal() * 4))
                return f"0x{int(np.float64(x).view(np.uint64)):016X}"
            size = BITS[element]
            if self.rng.random() < 0.5:
                return str(int(self.rng.integers(-9, 10)))
            return str(int(self.rng.integers(-(2 ** (size - 1)), 2 ** (size - 1) - 1)))

        if self.lanes == 1:
            return number()
        if self.rng.random() < 0.5:
            return f"splat ({element} {number()})"
        return "<" + ", ".join(f"{element} {number()}" for _ in range(self.lanes)) + ">"

    def splat(self, element: str, text: str) -> str:
        """Return a constant in all lanes."""
        return text if self.lanes == 1 else f"splat ({element} {text})"

    def usable(self, element: str) -> str:
        """Return a float that is not a nan."""
        kind, mask, x = self.kind(element), self.kind("i1"), self.value(element)
        is_number = self.emit(f"fcmp ord {kind} {x}, {x}")
        zero = self.splat(element, "0x3FF0000000000000")
        return self.emit(f"select {mask} {is_number}, {kind} {x}, {kind} {zero}")

    def small(self, element: str) -> str:
        """Return a float that every integer type of 32 bits can hold."""
        kind, mask, x = self.kind(element), self.kind("i1"), self.value(element)
        size = self.emit(f"call {kind} @llvm.fabs.{self.suffix(element)}({kind} {x})")
        limit = self.splat(element, "0x40D0000000000000")
        is_small = self.emit(f"fcmp olt {kind} {size}, {limit}")
        zero = self.splat(element, "0x3FF8000000000000")
        return self.emit(f"select {mask} {is_small}, {kind} {x}, {kind} {zero}")

    # Operations.

    def load(self) -> None:
        """Read a vector from anywhere in the operand."""
        element = str(self.pick((*INTEGERS, *FLOATS)))
        size = self.lanes * BITS[element] // 8
        at = int(self.rng.integers(0, OPERAND_BYTES - size))
        place = self.emit(f"getelementptr i8, ptr %x0, i64 {at}")
        kind = self.kind(element)
        self.keep(element, f"load {kind}, ptr {place}, align 1")

    def masked_load(self) -> None:
        """Read some lanes."""
        element = str(self.pick((*INTEGERS, *FLOATS)))
        kind, n = self.kind(element), self.lanes
        at = int(self.rng.integers(0, OPERAND_BYTES - n * BITS[element] // 8))
        place = self.emit(f"getelementptr i8, ptr %x0, i64 {at}")
        instead = "zeroinitializer" if self.rng.random() < 0.5 else self.value(element)
        mask = self.value("i1") if self.rng.random() < 0.7 else self.constant("i1")
        self.keep(
            element,
            f"call {kind} @llvm.masked.load.{self.suffix(element)}.p0(ptr align 1 {place}, "
            f"<{n} x i1> {mask}, {kind} {instead})",
        )

    def gather(self) -> None:
        """Read lanes from anywhere."""
        element = str(self.pick((*INTEGERS, *FLOATS)))
        kind, n = self.kind(element), self.lanes
        wide = self.kind("i64")
        most = self.splat("i64", str(OPERAND_BYTES // 8 - 1))
        index = self.emit(f"and {wide} {self.value('i64')}, {most}")
        places = self.emit(f"getelementptr {element}, ptr %x0, {wide} {index}")
        mask = self.constant("i1") if self.rng.random() < 0.4 else self.value("i1")
        self.keep(
            element,
            f"call {kind} @llvm.masked.gather.{self.suffix(element)}.v{n}p0("
            f"<{n} x ptr> align 1 {places}, <{n} x i1> {mask}, {kind} {self.operand(element)})",
        )

    def integers(self) -> None:
        """Combine integers."""
        element = str(self.pick(INTEGERS))
        kind = self.kind(element)
        op = str(self.pick(("add", "sub", "mul", "and", "or", "xor")))
        x, y = self.operand(element), self.value(element)
        if self.rng.random() < 0.5:
            x, y = y, x
        self.keep(element, f"{op} {kind} {x}, {y}")

    def shift(self) -> None:
        """Shift integers by less than their bits."""
        element = str(self.pick(INTEGERS))
        kind, most = self.kind(element), BITS[element] - 1
        op = str(self.pick(("shl", "lshr", "ashr")))
        if self.rng.random() < 0.5:
            by = self.splat(element, str(int(self.rng.integers(0, most + 1))))
        else:
            by = self.emit(f"and {kind} {self.value(element)}, {self.splat(element, str(most))}")
        self.keep(element, f"{op} {kind} {self.value(element)}, {by}")

    def divide(self) -> None:
        """Divide one integer by another that is neither 0 nor -1."""
        element = str(self.pick(("i32", "i64")))
        low = self.emit(f"and {element} {self.value(element)}, 1023")
        by = self.emit(f"add {element} {low}, 1")
        op = str(self.pick(("sdiv", "udiv", "srem", "urem")))
        self.keep(element, f"{op} {element} {self.value(element)}, {by}")

    def quotients(self) -> None:
        """Divide vectors of integers by numbers that are neither 0 nor -1."""
        element = str(self.pick(("i8", "i16", "i32")))
        kind = self.kind(element)
        low = self.emit(f"and {kind} {self.value(element)}, {self.splat(element, '63')}")
        by = self.emit(f"add {kind} {low}, {self.splat(element, '1')}")
        op = str(self.pick(("sdiv", "udiv", "srem", "urem")))
        self.keep(element, f"{op} {kind} {self.value(element)}, {by}")

    def count(self) -> None:
        """Count bits, or take the absolute value."""
        element = str(self.pick(INTEGERS))
        op, rest = self.pick((("ctpop", ""), ("ctlz", ", i1 false"), ("abs", ", i1 false")))
        self.call(element, op, 1, rest)

    def extreme(self) -> None:
        """Take the greater or lesser."""
        if self.rng.random() < 0.5:
            element = str(self.pick(FLOATS))
            op = str(self.pick(("maximum", "minimum")))
        else:
            element = str(self.pick(INTEGERS))
            op = str(self.pick(("smax", "smin", "umax", "umin")))
        self.call(element, op, 2)

    def call(self, element: str, op: str, count: int, rest: str = "") -> str:
        """Call an intrinsic of values of one type."""
        kind = self.kind(element)
        given = ", ".join(f"{kind} {self.operand(element)}" for _ in range(count - 1))
        listed = f"{kind} {self.value(element)}" + (f", {given}" if given else "")
        return self.keep(element, f"call {kind} @llvm.{op}.{self.suffix(element)}({listed}{rest})")

    def floats(self) -> None:
        """Combine floats."""
        element = str(self.pick(FLOATS))
        kind = self.kind(element)
        op = str(self.pick(("fadd", "fsub", "fmul", "fdiv")))
        x, y = self.operand(element), self.value(element)
        if self.rng.random() < 0.5:
            x, y = y, x
        self.keep(element, f"{op} {kind} {x}, {y}")

    def fma(self) -> None:
        """Multiply and add; factors and summand may be constants."""
        element = str(self.pick(FLOATS))
        kind = self.kind(element)
        given = [self.operand(element) for _ in range(3)]
        given[int(self.rng.integers(3))] = self.value(element)
        listed = ", ".join(f"{kind} {x}" for x in given)
        self.keep(element, f"call {kind} @llvm.fma.{self.suffix(element)}({listed})")

    def unary(self) -> None:
        """Change one float."""
        element = str(self.pick(FLOATS))
        kind = self.kind(element)
        op = str(self.pick(("fneg", "fabs", "sqrt", "floor", "ceil", "trunc", "roundeven")))
        x = self.value(element)
        if op == "fneg":
            self.keep(element, f"fneg {kind} {x}")
        else:
            self.keep(element, f"call {kind} @llvm.{op}.{self.suffix(element)}({kind} {x})")

    def sign(self) -> None:
        """Give one number the sign of another."""
        element = str(self.pick(FLOATS))
        kind, y = self.kind(element), self.usable(element)
        self.keep(
            element,
            f"call {kind} @llvm.copysign.{self.suffix(element)}({kind} {self.value(element)}, "
            f"{kind} {y})",
        )

    def compare(self) -> None:
        """Compare numbers, or truths of vectors."""
        if self.rng.random() < 0.5:
            element = str(self.pick(FLOATS))
            how = f"fcmp {self.pick(ORDERS)}"
        else:
            has_truths = self.lanes > 1 and "i1" in self.pools
            elements = (*INTEGERS, "i1") if has_truths else INTEGERS
            element = str(self.pick(elements))
            how = f"icmp {self.pick(RELATIONS)}"
        kind = self.kind(element)
        self.keep("i1", f"{how} {kind} {self.value(element)}, {self.operand(element)}")

    def truths(self) -> None:
        """Combine truths."""
        kind, op = self.kind("i1"), self.pick(("and", "or", "xor"))
        other = self.splat("i1", "true") if self.rng.random() < 0.3 else self.value("i1")
        self.keep("i1", f"{op} {kind} {self.value('i1')}, {other}")

    def select(self) -> None:
        """Choose by truths."""
        element = str(self.pick((*INTEGERS, *FLOATS, "i1")))
        kind, mask = self.kind(element), self.kind("i1")
        x, y = self.operand(element), self.operand(element)
        self.keep(element, f"select {mask} {self.value('i1')}, {kind} {x}, {kind} {y}")

    def convert(self) -> None:
        """Change the length of integers."""
        before, after = (str(self.pick(INTEGERS)) for _ in range(2))
        if before == after:
            before = "i1"
        if BITS[before] > BITS[after]:
            how = "trunc"
        else:
            how = str(self.pick(("zext", "sext")))
        x = self.value(before)
        self.keep(after, f"{how} {self.kind(before)} {x} to {self.kind(after)}")

    def to_float(self) -> None:
        """Change integers, or floats, to floats."""
        after = str(self.pick(FLOATS))
        if self.rng.random() < 0.3:
            before = "float" if after == "double" else "double"
            how = "fpext" if after == "double" else "fptrunc"
        else:
            before = str(self.pick(INTEGERS))
            how = str(self.pick(("sitofp", "uitofp")))
        x = self.value(before)
        self.keep(after, f"{how} {self.kind(before)} {x} to {self.kind(after)}")

    def to_integer(self) -> None:
        """Change floats to integers; in the usual way only those that fit."""
        before, after = str(self.pick(FLOATS)), str(self.pick(("i32", "i64")))
        sign = str(self.pick("su"))
        if self.rng.random() < 0.5:
            after = str(self.pick(INTEGERS))
            name = f"fpto{sign}i.sat.{self.suffix(after)}.{self.suffix(before)}"
            x = self.value(before)
            self.keep(after, f"call {self.kind(after)} @llvm.{name}({self.kind(before)} {x})")
            return
        x = self.small(before)
        if self.lanes == 1:
            return
        if sign == "u":
            kind = self.kind(before)
            x = self.emit(f"call {kind} @llvm.fabs.{self.suffix(before)}({kind} {x})")
        self.keep(after, f"fpto{sign}i {self.kind(before)} {x} to {self.kind(after)}")

    def bits(self) -> None:
        """Look at floats as integers, and the other way round."""
        is_double = self.rng.random() < 0.5
        floats, integers = ("double", "i64") if is_double else ("float", "i32")
        if self.rng.random() < 0.5:
            before, after = floats, integers
            x = self.usable(before)
        else:
            before, after = integers, floats
            x = self.value(before)
        self.keep(after, f"bitcast {self.kind(before)} {x} to {self.kind(after)}")

    def halves(self) -> None:
        """Round floats to f16 and back."""
        x = self.usable("float")
        half = self.emit(f"fptrunc {self.kind('float')} {x} to {self.kind('half')}")
        self.keep("i16", f"bitcast {self.kind('half')} {half} to {self.kind('i16')}")
        back = self.emit(f"bitcast {self.kind('i16')} {self.value('i16')} to {self.kind('half')}")
        self.keep("float", f"fpext {self.kind('half')} {back} to {self.kind('float')}")

    def diamond(self) -> None:
        """Go one of two ways."""
        n = self.lanes
        some = self.value("i1")
        if n > 1:
            some = self.emit(f"call i1 @llvm.vector.reduce.or.v{n}i1(<{n} x i1> {some})")
        element = str(self.pick((*INTEGERS, *FLOATS)))
        kind, before = self.kind(element), self.block
        self.names += 1
        then, after = f"then{self.names}", f"after{self.names}"
        usual = [self.operand(element), self.value(element)]
        self.lines.append(f"  br i1 {some}, label %{then}, label %{after}, !prof !0")
        self.lines.append(f"{then}:")
        saved = {name: list(pool) for name, pool in self.pools.items()}
        self.integers()
        self.floats()
        found = [self.value(element), self.operand(element)]
        self.pools = saved
        self.lines.append(f"  br label %{after}")
        self.lines.append(f"{after}:")
        self.block = after
        for old, made in zip(usual, found, strict=True):
            self.keep(element, f"phi {kind} [ {old}, %{before} ], [ {made}, %{then} ]")

    def loop(self) -> None:
        """Take a few turns, which exchange two values and add up a third."""
        element = str(self.pick((*INTEGERS, *FLOATS)))
        kind, add = self.kind(element), "fadd" if element in FLOATS else "add"
        self.names += 1
        n, before = self.names, self.block
        given = [self.operand(element) for _ in range(3)]
        self.lines.append(f"  br label %loop{n}")
        self.lines.append(f"loop{n}:")
        self.lines.append(f"  %i{n} = phi i64 [ 0, %{before} ], [ %next{n}, %loop{n} ]")
        others = ("b", "a", "d")
        for letter, first, other in zip("abc", given, others, strict=True):
            self.lines.append(
                f"  %{letter}{n} = phi {kind} [ {first}, %{before} ], [ %{other}{n}, %loop{n} ]"
            )
        self.lines.append(f"  %d{n} = {add} {kind} %c{n}, %a{n}")
        self.lines.append(f"  %next{n} = add i64 %i{n}, 1")
        self.lines.append(f"  %more{n} = icmp slt i64 %next{n}, {int(self.rng.integers(1, 6))}")
        self.lines.append(f"  br i1 %more{n}, label %loop{n}, label %done{n}")
        self.lines.append(f"done{n}:")
        self.block = f"done{n}"
        self.pools[element].append(f"%d{n}")

    def function(self) -> None:
        """Call another function of the module."""
        element = str(self.pick(FLOATS))
        kind = self.kind(element)
        if self.lanes * BITS[element] > 4 * 8 * self.register_bytes:
            return
        name = f"@helper.{len(self.parts)}"
        self.parts.append(
            f"define internal {kind} {name}({kind} %x0, {kind} %x1) #0 {{\nentry:\n"
            f"  %v1 = fmul {kind} %x0, %x1\n  %v2 = fsub {kind} %v1, %x0\n  ret {kind} %v2\n}}\n"
        )
        self.keep(
            element,
            f"call {kind} {name}({kind} {self.value(element)}, {kind} {self.operand(element)})",
        )

    def splats(self) -> None:
        """Put a number into all lanes."""
        element = str(self.pick((*INTEGERS, *FLOATS)))
        at = int(self.rng.integers(0, OPERAND_BYTES - 8))
        place = self.emit(f"getelementptr i8, ptr %x0, i64 {at}")
        number = self.emit(f"load {element}, ptr {place}, align 1")
        if element == "i32" and self.rng.random() < 0.5:
            number = self.emit(f"icmp slt i32 {number}, 0")
            element = "i1"
        kind, n = self.kind(element), self.lanes
        first = self.emit(f"insertelement {kind} poison, {element} {number}, i32 0")
        self.keep(
            element, f"shufflevector {kind} {first}, {kind} poison, <{n} x i32> zeroinitializer"
        )

    def turned(self) -> None:
        """Turn the lanes round."""
        element = str(self.pick(("i1", *INTEGERS, *FLOATS)))
        kind, n = self.kind(element), self.lanes
        order = ", ".join(f"i32 {i}" for i in reversed(range(n)))
        self.keep(
            element,
            f"shufflevector {kind} {self.value(element)}, {kind} poison, <{n} x i32> <{order}>",
        )

    def chosen(self) -> None:
        """Choose lanes of two vectors."""
        n = self.lanes
        wide = [e for e in (*INTEGERS, *FLOATS) if BITS[e] >= 32 and n * BITS[e] >= 256]
        if not wide:
            return
        element = str(self.pick(wide))
        kind, start, step = self.kind(element), int(self.rng.integers(n)), int(self.rng.integers(5))
        lanes = (
            self.rng.integers(0, 2 * n, n) if step == 4 else (start + np.arange(n) * step) % (2 * n)
        )
        order = ", ".join(f"i32 {lane}" for lane in lanes)
        self.keep(
            element,
            f"shufflevector {kind} {self.value(element)}, {kind} {self.operand(element)}, "
            f"<{n} x i32> <{order}>",
        )

    def text(self, count: int) -> tuple[str, int]:
        """Return the module and the number of bytes that it writes."""
        for element in (*INTEGERS, *FLOATS):
            for _ in range(2):
                at = int(self.rng.integers(0, OPERAND_BYTES - self.lanes * BITS[element] // 8))
                place = self.emit(f"getelementptr i8, ptr %x0, i64 {at}")
                self.keep(element, f"load {self.kind(element)}, ptr {place}, align 1")
        self.compare()
        both = [self.load, self.integers, self.shift, self.extreme, self.floats, self.fma]
        both += [self.unary, self.sign, self.compare, self.truths, self.select, self.convert]
        both += [self.to_float, self.bits, self.diamond, self.loop, self.function, self.floats]
        both += [self.count, self.to_integer]
        choices: list[Callable[[], None]] = [*both]
        if self.lanes == 1:
            choices += [self.divide]
        else:
            choices += [self.masked_load, self.gather, self.splats, self.turned, self.halves]
            choices += [self.quotients, self.chosen]
        for _ in range(count):
            choices[int(self.rng.integers(len(choices)))]()
        size = self.store_all()
        body = "\n".join(self.lines)
        entry = f"define void @run(ptr %out, ptr %x0) #0 {{\nentry:\n{body}\n  ret void\n}}\n"
        return "\n".join([*self.parts, entry]), size

    def store_all(self) -> int:
        """Write all that was computed, nan as one nan; some of it under masks or scattered."""
        at = 0
        for element in (*INTEGERS, *FLOATS, "i1"):
            for name in self.pools.get(element, []):
                stored, wide = name, element
                if element == "i1":
                    wide = "i8"
                    stored = self.emit(f"zext {self.kind('i1')} {name} to {self.kind('i8')}")
                elif element in FLOATS:
                    kind, mask = self.kind(element), self.kind("i1")
                    one = self.splat(element, "0x3FF0000000000000")
                    is_number = self.emit(f"fcmp ord {kind} {name}, {name}")
                    stored = self.emit(f"select {mask} {is_number}, {kind} {name}, {kind} {one}")
                size = self.lanes * BITS[wide] // 8
                at = (at + size - 1) // size * size
                self.store(wide, stored, at)
                at += size
        return at

    def store(self, element: str, name: str, at: int) -> None:
        """Write one value."""
        kind, n = self.kind(element), self.lanes
        place = self.emit(f"getelementptr i8, ptr %out, i64 {at}")
        choice = self.rng.random()
        # LLVM 22 stores more than 8 bytes if the mask was on the stack (`schedule.MASKED_BYTES`).
        if n > 1 and choice < 0.2 and (n, element) != (8, "i8"):
            self.lines.append(
                f"  call void @llvm.masked.store.{self.suffix(element)}.p0({kind} {name}, "
                f"ptr align 1 {place}, <{n} x i1> {self.value('i1')})"
            )
        elif n > 1 and choice < 0.4:
            order = ", ".join(f"i64 {i}" for i in self.rng.permutation(n))
            places = self.emit(f"getelementptr {element}, ptr {place}, <{n} x i64> <{order}>")
            mask = self.constant("i1") if self.rng.random() < 0.4 else self.value("i1")
            self.lines.append(
                f"  call void @llvm.masked.scatter.{self.suffix(element)}.v{n}p0({kind} {name}, "
                f"<{n} x ptr> align 1 {places}, <{n} x i1> {mask})"
            )
        else:
            self.lines.append(f"  store {kind} {name}, ptr {place}, align 1")
