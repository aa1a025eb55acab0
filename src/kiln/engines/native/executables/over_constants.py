"""Programs that compute once what depends only on the arrays a function closes over."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from kiln import _runtime
from kiln.core.engines.engine import Buffer, Program
from kiln.ir.shardings.sharding import Sharding


def prologue_of(program: Program) -> Program:
    """Return what the prologue of a program is compiled as: nothing is donated to it."""
    return dataclasses.replace(program, name=f"{program.name}_constants", donated=())


class OverConstants:
    """A program whose first operands are constants, and a prologue that computes values from them.

    Called with buffers it computes all of them. `main` takes the values of the prologue after the
    operands of the program.
    """

    final_stage = "loops"

    def __init__(self, main: Any, prologue: Any, constants: int) -> None:
        self.main, self.prologue, self.constants = main, prologue, constants

    def __call__(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """Run the prologue, then the program."""
        return self.over(buffers[: self.constants])(buffers)

    def over(self, constants: Sequence[Buffer]) -> _runtime.Native:
        """Return the executable for constants: it takes all operands, these too.

        What it keeps of them is computed here, and lives as long as the executable.
        """
        made: _runtime.Native = self.main.over(self.prologue(constants))
        return made

    @property
    def kept_bytes(self) -> int:
        """The bytes of the values that are kept for constants."""
        return sum(size for _, size in self.prologue.results)

    @property
    def program(self) -> Program:
        """What was compiled."""
        found: Program = self.main.program
        return found

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.program.name

    def as_text(self, stage: str) -> str:
        """Return the prologue and the program as `loops`, `llvm`, `asm` or `html`.

        Raises: ValueError for another stage.
        """
        return f"{self.prologue.as_text(stage)}\n{self.main.as_text(stage)}"

    def size_in_bytes(self) -> int:
        """Return roughly the memory of the code: its objects, loaded and kept."""
        return int(self.prologue.size_in_bytes() + self.main.size_in_bytes())

    def out_shardings(self) -> list[Sharding]:
        """Return the device of the program's placement, or the host, for each result."""
        found: list[Sharding] = self.main.out_shardings()
        return found

    def cost_analysis(self) -> dict[str, float]:
        """Return the `flops` and `bytes accessed` of a call; a `while` loop counts once."""
        found: dict[str, float] = self.main.cost_analysis()
        return found

    def memory_analysis(self) -> Any:
        """Return the bytes of arguments, results, temporaries and code; what is kept is given."""
        return self.main.memory_analysis()

    def explain_memory(self) -> str:
        """Return where buffers are, which share memory, and which copies are made and why."""
        return str(self.main.explain_memory())

    def runtime_executable(self) -> OverConstants:
        """Return itself."""
        return self
