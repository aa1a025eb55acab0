"""The text of one LLVM function, line by line."""

from __future__ import annotations

from kiln.engines.native.llvm.target import Target


class Writer:
    """Lines of one function for a target; names are fresh within it.

    Intrinsics need no declaration: LLVM's parser declares `llvm.*` itself.
    """

    __slots__ = ("_names", "block", "lines", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.lines: list[str] = []
        self.block = "entry"
        """The label of the block being written; what a `phi` after it names."""
        self._names = 0

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

    def text(self, header: str) -> str:
        """Return the function: `header` is what precedes its body, from `define` on."""
        return "\n".join([f"{header} {{", "entry:", *self.lines, "}", ""])
