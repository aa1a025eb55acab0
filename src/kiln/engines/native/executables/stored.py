"""Programs whose code another process compiled, ready to run without the compiler.

Importing the compiler takes longer than compiling most programs, so it is loaded only for reports
about such a program, or when LLVM's code pays off.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import _runtime
from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.base.lazy import llvmlite
from kiln.base.options.config import options
from kiln.core.arrays.host_memory import HOST_MEMORY
from kiln.core.engines.engine import Program, engine
from kiln.engines.native.executables import openblas
from kiln.engines.native.executables.over_constants import OverConstants, prologue_of
from kiln.engines.native.executables.value_types import ValueType, known, value_type
from kiln.engines.native.llvm.linking import ENTRY, host_target, linked
from kiln.ir.shardings.sharding import Sharding, SingleDeviceSharding

_PAGE = 4096


def machine() -> tuple[str, ...]:
    """Return the compilation target, and the versions of other code generators."""
    return (host_target().name, str(llvmlite.__version__))


def to_stored(executable: Any) -> bytes | None:
    """Return an executable as bytes, with its current code.

    None for programs that call Python, have checks, are instrumented, or have named sizes.
    """
    if isinstance(executable, OverConstants):
        parts = [to_stored(executable.main), to_stored(executable.prologue)]
        types = [(dtype.str, size) for dtype, size in executable.prologue.results]
        return None if None in parts else marshal.dumps((*parts, types))
    code = getattr(executable, "code", None)
    if code is None or not code.is_storable or code.program.sizes:
        return None
    about = {
        "workspace": executable.workspace,
        "needs_library": code.needs_library,
        "shared": [tuple(pair) for pair in code.shared],
        "taken": [tuple(pair) for pair in code.taken],
        "calls": code.calls,
    }
    return marshal.dumps((about, code.image))


def when_improved(executable: Any, callback: Callable[[], None]) -> None:
    """Call a function when LLVM has recompiled a program of the assembler."""
    if isinstance(executable, OverConstants):
        executable = executable.main
    is_stored = isinstance(executable, StoredExecutable)
    holder = executable._stored if is_stored else executable.code
    holder.improved = callback


def from_stored(program: Program, stored: bytes) -> StoredExecutable | OverConstants:
    """Return the executable of a program from what `to_stored` returned; the bytes must be trusted.

    Raises: JaxRuntimeError if it cannot be loaded here.
    """
    try:
        operands = known([value_type(v.aval) for v in program.jaxpr.invars])
        results = known([value_type(v.aval) for v in program.jaxpr.outvars])
        parts = marshal.loads(stored)
        if len(parts) == 2:
            return StoredExecutable(StoredProgram(program, *parts), operands, results)
        of_main, of_prologue, types = parts
        kept = [(np.dtype(dtype), size) for dtype, size in types]
        whole = StoredProgram(program, *marshal.loads(of_main))
        before = StoredProgram(prologue_of(program), *marshal.loads(of_prologue), is_prologue=True)
        main = StoredExecutable(whole, [*operands, *kept], results)
        prologue = StoredExecutable(before, operands[: program.constants], kept)
        return OverConstants(main, prologue, program.constants)
    except (ValueError, EOFError, TypeError, KeyError, RuntimeError, ImportError) as error:
        raise JaxRuntimeError(
            three_lines(
                f"loading a compiled program for {program.name}",
                str(error).splitlines()[0],
                "compile the program again",
            )
        ) from None


class StoredProgram:
    """Code in memory, and everything needed to call it."""

    def __init__(
        self, program: Program, about: dict[str, Any], image: bytes, *, is_prologue: bool = False
    ) -> None:
        if about["needs_library"]:
            openblas.load()
        code = linked(image, ENTRY)
        if code is None:
            raise ValueError("it is an object that the runtime does not link")
        self.program, self.about, self.image, self.owner = program, about, image, code
        self.is_prologue = is_prologue
        self._whole: Any = None
        self.improved: Callable[[], None] | None = None
        chosen = options()
        if chosen.perf or chosen.gdb:
            # Debuggers and perf need the names of its functions.
            self.whole()

    def whole(self) -> Any:
        """Return the code with all metadata of the program."""
        if self._whole is None:
            compiler: Any = engine("native").compiler
            self._whole = compiler.stored_code(
                self.program, self.about, self.image, is_prologue=self.is_prologue
            )
        return self._whole

    def improve(self) -> tuple[int, object] | None:
        """Let LLVM compile the program; return the address and the owner of the code."""
        found: tuple[int, object] | None = self.whole().improve()
        if found is not None and self.improved is not None:
            self.improved()
        return found


class StoredExecutable(_runtime.Native):
    """A program that another process compiled: the callable.

    `kept` are the memory blocks of operands that the code takes after `operands`.
    """

    __slots__ = ("_stored", "_types")

    final_stage = "loops"

    def __init__(
        self,
        stored: StoredProgram,
        operands: Sequence[ValueType],
        results: Sequence[ValueType],
        kept: Sequence[Any] = (),
    ) -> None:
        program, about = stored.program, stored.about
        super().__init__(
            stored.owner.address,
            operands,
            results,
            stored.owner,
            workspace=about["workspace"],
            threads=program.threads,
            shared=about["shared"],
            reused=about["taken"],
            improve=stored.improve,
            calls=about["calls"],
            kept=kept,
        )
        self._stored = stored
        self._types = operands, results

    def over(self, kept: Sequence[Any]) -> StoredExecutable:
        """Return the executable that takes all operands but the last ones, which are `kept`."""
        operands, results = self._types
        return StoredExecutable(self._stored, operands[: len(operands) - len(kept)], results, kept)

    @property
    def results(self) -> Sequence[ValueType]:
        """The types of the results."""
        return self._types[1]

    @property
    def code(self) -> Any:
        """The code, with all metadata of the program."""
        return self._stored.whole()

    @property
    def workspace(self) -> int:
        """The bytes of temporaries."""
        return int(self._stored.about["workspace"])

    @property
    def program(self) -> Program:
        """What was compiled."""
        return self._stored.program

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.program.name

    @property
    def image(self) -> bytes:
        """The program as an object file."""
        return self._stored.image

    def as_text(self, stage: str) -> str:
        """Return the program as `loops`, `llvm`, `asm` or `html`.

        Raises: ValueError for another stage.
        """
        text: str = self.code.as_text(stage)
        return text

    def size_in_bytes(self) -> int:
        """Return roughly the memory of the program: its object, loaded and kept."""
        return len(self.image) + (len(self.image) // _PAGE + 2) * _PAGE

    def out_shardings(self) -> list[Sharding]:
        """Return the device of the program's placement, or the host, for each result."""
        placement = self.program.placement
        (device,) = HOST_MEMORY.devices() if placement is None else placement.devices
        return [SingleDeviceSharding(device)] * len(self._types[1])

    def cost_analysis(self) -> dict[str, float]:
        """Return the `flops` and `bytes accessed` of a call; a `while` loop counts once."""
        found: dict[str, float] = self._inspected().cost_analysis()
        return found

    def memory_analysis(self) -> Any:
        """Return the bytes of arguments, results, temporaries and code."""
        return self._inspected().memory_analysis()

    def explain_memory(self) -> str:
        """Return where buffers are, which share memory, and which copies are made and why."""
        text: str = self.code.explain_memory({})
        return text

    def runtime_executable(self) -> StoredExecutable:
        """Return itself."""
        return self

    def _inspected(self) -> Any:
        compiler: Any = engine("native").compiler
        return compiler.executable_of(self.code, *self._types, self.workspace)
