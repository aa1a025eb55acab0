"""The text of one LLVM function, line by line."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kiln.engines.native.llvm.target import Target
from kiln.engines.native.loop_ir.extents import Grain
from kiln.ir.sizes.size import Dim, Size

POINTER, COUNTER, NUMBER = "ptr", "i64", "number"
"""What the slots of a context hold: an address, a counter, a number that the runtime writes."""


def slots_of(kind: str, target: Target) -> int:
    """Return how many slots a value has.

    A slot is as wide as a pointer: where that is 32 bits, a counter has two, and what the runtime
    writes to a slot (`_runtime/linear/products/epilogue.h`) is a number of 32 bits.
    """
    return 2 if kind == COUNTER and target.is_module else 1


class Sizes:
    """The numbers that calls supply, in the order of `Call.sizes`."""

    __slots__ = ("_places", "numbers")

    def __init__(self) -> None:
        self.numbers: list[Dim | Grain] = []
        self._places: dict[Hashable, int] = {}

    def place(self, number: Dim | Grain) -> int:
        """Return the index of a number."""
        return self._place(number, [number])

    def block(self, numbers: Sequence[Dim]) -> int:
        """Return the index of the first of several numbers, which are consecutive."""
        return self._place((*numbers,), numbers)

    def _place(self, key: Hashable, numbers: Sequence[Dim | Grain]) -> int:
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = len(self.numbers)
            self.numbers += numbers
        return found


class Writer:
    """Lines of one function for a target; names are fresh within it.

    Intrinsics need no declaration: LLVM's parser declares `llvm.*` itself.
    """

    __slots__ = ("_names", "_sizes", "_stack", "block", "head", "lines", "sizes", "target")

    def __init__(self, target: Target, sizes: Sizes | None = None) -> None:
        self.target = target
        self.sizes = Sizes() if sizes is None else sizes
        """What calls supply: all functions of a module share it."""
        self.head: list[str] = []
        """What comes before all lines."""
        self.lines: list[str] = []
        self.block = "entry"
        """The label of the block being written; what a `phi` after it names."""
        self._names = 0
        self._sizes: dict[Size | Grain, str] = {}
        self._stack: dict[str, str] = {}

    def name(self, hint: str = "v") -> str:
        """Return a fresh name, including the %."""
        self._names += 1
        return f"%{hint}{self._names}"

    def emit(self, text: str, hint: str = "v") -> str:
        """Write `%name = text` and return the name."""
        name = self.name(hint)
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Write an instruction without a result: a store, a branch."""
        self.lines.append(f"  {text}")

    def copy(self, to: str, of: str, count: str, *, may_be_same: bool = False) -> None:
        """Emit a copy of this many bytes between two addresses, unless they are the same."""
        if may_be_same:
            same = self.emit(f"icmp eq ptr {to}, {of}")
            count = self.emit(f"select i1 {same}, i64 0, i64 {count}")
        self.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {of}, i64 {count}, i1 false)")

    def store_slots(self, values: Sequence[str]) -> int:
        """Store values, each after its type, to the context `%slots`; return how many slots."""
        word, align = self._slot()
        at = 0
        for value in values:
            place = self.emit(f"getelementptr {word}, ptr %slots, i64 {at}")
            self.do(f"store {value}, ptr {place}, align {align}")
            at += slots_of(value.partition(" ")[0], self.target)
        return at

    def load_slots(self, kinds: Sequence[str]) -> list[str]:
        """Return the registers of the values in `%context`."""
        word, align = self._slot()
        found, at = [], 0
        for kind in kinds:
            place = self.emit(f"getelementptr {word}, ptr %context, i64 {at}")
            loaded = word if kind == NUMBER else kind
            value = self.emit(f"load {loaded}, ptr {place}, align {align}")
            found.append(self.emit(f"zext i32 {value} to i64") if loaded == "i32" else value)
            at += slots_of(kind, self.target)
        return found

    def _slot(self) -> tuple[str, int]:
        return ("i32", 4) if self.target.is_module else ("i64", 8)

    def label(self, hint: str = "b") -> str:
        """Return a fresh label, without %, to be placed by `begin`."""
        return self.name(hint)[1:]

    def begin(self, label: str) -> None:
        """Start a block. The one before must have ended by a branch."""
        self.lines.append(f"{label}:")
        self.block = label

    def mark(self) -> int:
        """Return the current position in the text, for `insert`."""
        return len(self.lines)

    def insert(self, mark: int, lines: list[str]) -> None:
        """Insert instructions at a marked position, before everything emitted since."""
        self.lines[mark:mark] = [f"  {line}" for line in lines]

    def phi(self, kind: str, *arms: tuple[str, str]) -> str:
        """Write a phi of (value, label) pairs."""
        return self.emit(f"phi {kind} " + ", ".join(f"[ {v}, %{b} ]" for v, b in arms))

    def dim(self, dim: Dim | Grain) -> str:
        """Return a size as an operand: a number, or the register of one that the call supplies."""
        if isinstance(dim, int):
            return str(dim)
        found = self._sizes.get(dim)
        if found is None:
            place = self.place(self.sizes.place(dim))
            found = self._sizes[dim] = f"%size{len(self._sizes)}"
            self.head.append(f"  {found} = load i64, ptr {place}, align 8")
        return found

    def place(self, number: int) -> str:
        """Return the register with the address of a number that the call supplies."""
        if not self.head:
            self.head += [
                "  %field = getelementptr i64, ptr %call, i64 2",
                "  %sizes = load ptr, ptr %field, align 8",
            ]
        place = f"%at{len(self.head)}"
        self.head.append(f"  {place} = getelementptr i64, ptr %sizes, i64 {number}")
        return place

    def stack(self, kind: str, hint: str) -> str:
        """Return the register with the address of memory of a type, the same in each call."""
        return self._stack.setdefault(kind, f"%{hint}_{len(self._stack)}")

    def _start(self) -> list[str]:
        memory = [f"  {name} = alloca {kind}, align 64" for kind, name in self._stack.items()]
        return [*memory, *self.head]

    def body(self) -> str:
        """Return all instructions."""
        return "\n".join([*self._start(), *self.lines])

    def text(self, header: str) -> str:
        """Return the function: `header` is what precedes its body, from `define` on."""
        return "\n".join([f"{header} {{", "entry:", *self._start(), *self.lines, "}", ""])
