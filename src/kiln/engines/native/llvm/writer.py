"""The text of one LLVM function, line by line."""

from __future__ import annotations

from kiln.engines.native.llvm.target import Target
from kiln.engines.native.loop_ir import Grain
from kiln.ir.sizes import Dim, Size


class Writer:
    """Lines of one function for a target; names are fresh within it.

    Intrinsics need no declaration: LLVM's parser declares `llvm.*` itself.
    """

    __slots__ = ("_names", "_sizes", "block", "head", "lines", "sizes", "target")

    def __init__(self, target: Target, sizes: dict[Size, int] | None = None) -> None:
        self.target = target
        self.sizes: dict[Size, int] = {} if sizes is None else sizes
        """The numbers of the sizes that calls supply: all functions of a module share them."""
        self.head: list[str] = []
        """What comes before all lines."""
        self.lines: list[str] = []
        self.block = "entry"
        """The label of the block being written; what a `phi` after it names."""
        self._names = 0
        self._sizes: dict[Size, str] = {}

    def name(self, hint: str = "v") -> str:
        """Return a name that nothing else in the function has, with its %."""
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

    def label(self, hint: str = "b") -> str:
        """Return a fresh label, without %, to be placed by `begin`."""
        return self.name(hint)[1:]

    def begin(self, label: str) -> None:
        """Start a block. The one before must have ended by a branch."""
        self.lines.append(f"{label}:")
        self.block = label

    def mark(self) -> int:
        """Return where the text is now, for `insert`."""
        return len(self.lines)

    def insert(self, mark: int, lines: list[str]) -> None:
        """Write instructions at a place marked before, ahead of what was written since."""
        self.lines[mark:mark] = [f"  {line}" for line in lines]

    def phi(self, kind: str, *arms: tuple[str, str]) -> str:
        """Write a phi of (value, label) pairs."""
        return self.emit(f"phi {kind} " + ", ".join(f"[ {v}, %{b} ]" for v, b in arms))

    def dim(self, dim: Dim) -> str:
        """Return a size as an operand: a number, or the register of one that the call supplies."""
        if type(dim) is not Size:
            return str(dim)
        found = self._sizes.get(dim)
        if found is None:
            number = self.sizes.setdefault(dim, len(self.sizes))
            if not self._sizes:
                self.head += [
                    "  %field = getelementptr i64, ptr %call, i64 2",
                    "  %sizes = load ptr, ptr %field, align 8",
                ]
            found = self._sizes[dim] = f"%size{number}"
            self.head += [
                f"  %at{number} = getelementptr i64, ptr %sizes, i64 {number}",
                f"  {found} = load i64, ptr %at{number}, align 8",
            ]
        return found

    def body(self) -> str:
        """Return all instructions."""
        return "\n".join([*self.head, *self.lines])

    def text(self, header: str) -> str:
        """Return the function: `header` is what precedes its body, from `define` on."""
        return "\n".join([f"{header} {{", "entry:", *self.head, *self.lines, "}", ""])


def steps_of(w: Writer, grain: int | Grain) -> str:
    """Write how many steps a thread takes at a time, at least 1; return the operand."""
    if not isinstance(grain, Grain):
        return str(grain)
    points = _at_least_one(w, w.dim(grain.points))
    steps = _at_least_one(w, w.emit(f"udiv i64 {grain.most}, {points}"))
    if grain.multiple == 1:
        return steps
    more = w.emit(f"add i64 {steps}, {grain.multiple - 1}")
    return w.emit(f"and i64 {more}, {-grain.multiple}")


def _at_least_one(w: Writer, number: str) -> str:
    return w.emit(f"call i64 @llvm.umax.i64(i64 {number}, i64 1)")
