"""Programs as native code, called by address."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options
from kiln.core.arrays.host_memory import HOST_MEMORY
from kiln.core.engines.engine import Program, load_module
from kiln.engines.native.executables import openblas
from kiln.engines.native.executables.gdb_symbols import machine_of, register
from kiln.engines.native.executables.perf_map import loaded_functions, write_perf_map
from kiln.engines.native.executables.value_types import ValueType
from kiln.engines.native.llvm.assembly import Code, assemble, disassemble, load
from kiln.engines.native.llvm.generation import assembled, effort_for, generated
from kiln.engines.native.llvm.linking import ENTRY
from kiln.engines.native.llvm.writer import Sizes
from kiln.engines.native.loop_ir.callbacks import Callback
from kiln.engines.native.loop_ir.checks import raise_fault
from kiln.engines.native.loop_ir.costs import MemoryAnalysis, costs
from kiln.engines.native.loop_ir.statements import Buffer, Function, Kernel, Role, Statement
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.passes.donation import reusable
from kiln.ir.analysis import aliasing
from kiln.ir.shardings.sharding import Sharding, SingleDeviceSharding
from kiln.ir.sizes.size import Dim, Size
from kiln.ir.sizes.values import evaluate

if TYPE_CHECKING:
    from kiln.engines.native.reports.profiling import Profile

_REPORTS = "kiln.engines.native.reports"
"""Loaded for reports."""
_PAGE = 4096


class Written(NamedTuple):
    """A program as loops and as LLVM IR: offsets of temporaries, their total size, named sizes.

    If there is a prologue, the last inputs are its results: see `passes/products/constants.py`.
    """

    function: Function
    llvm: str
    offsets: dict[Buffer, Dim]
    workspace: Dim
    sizes: Sizes
    profile: Profile | None
    prologue: Written | None = None


Source = Callable[[], Written]
"""Regenerates a program's text."""


class NativeCode:
    """The loaded code of a program, and how it is called.

    `improved` is called when LLVM has recompiled a program of the assembler. Loops and texts, which
    take several times the memory of the code, are regenerated on demand.
    """

    __slots__ = (
        "_kept",
        "calls",
        "image",
        "improved",
        "is_storable",
        "needs_library",
        "owner",
        "program",
        "shared",
        "sites",
        "source",
        "symbols",
        "taken",
    )

    def __init__(self, program: Program, written: Written, source: Source) -> None:
        self.program, self.source = program, source
        self.image, self.calls = generated(written.llvm, written.function)
        # A profile holds the counters that the code updates.
        self._kept = None if written.profile is None else written
        function = written.function
        wanted = aliasing.reused(program.jaxpr, program.donated)
        self.taken = reusable(function, {result: operand for operand, result in wanted.items()})
        self.needs_library = needs_library(function.body)
        if self.needs_library:
            openblas.load()
        self.owner = load(self.image, ENTRY)
        self.shared = shared_results(function)
        self.sites = function.sites
        self.is_storable = not (function.callbacks or function.sites or written.profile)
        self.improved: Callable[[], None] | None = None
        self.symbols = named(program.name, self.image, self.owner.address)

    def improve(self) -> tuple[int, Code] | None:
        """Let LLVM compile the program; return the address and the owner of the code.

        None if there is no such code: the present code is correct too.
        """
        if self.calls:
            try:
                text = self.llvm
                # Regenerated, it must be identical to the last offset.
                if assembled(text) != self.image:
                    return None
                image = assemble(text)
                self.owner = load(image, ENTRY)
            except (MemoryError, RuntimeError, ImportError, ValueError):
                return None
            self.image, self.calls = image, 0
            # The previous code is still in use.
            self.symbols = self.symbols, named(self.name, image, self.owner.address)
            if self.improved is not None:
                self.improved()
        return self.owner.address, self.owner

    @property
    def written(self) -> Written:
        """The program as loops and LLVM IR."""
        return self._kept or self.source()

    @property
    def profile(self) -> Profile | None:
        """The program's measurements, if it is instrumented."""
        return None if self._kept is None else self._kept.profile

    @property
    def function(self) -> Function:
        """The program as loops."""
        return self.written.function

    @property
    def llvm(self) -> str:
        """The program as LLVM IR."""
        return self.written.llvm

    def explain(
        self, status: int, number: int, index: int, iteration: int, named: Sequence[int] = ()
    ) -> None:
        """Raise the error of a check that failed in a call with sizes of the named axes.

        Raises: FloatingPointError for a nan, IndexError for an index out of bounds.
        """
        sizes = dict(zip(self.program.sizes, named, strict=True))
        raise_fault(self.name, self.sites, sizes, status, number, index, iteration)

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.program.name

    def as_text(self, stage: str) -> str:
        """Return the program as `loops`, `llvm`, `asm`, `html` or `profile`.

        Raises: ValueError for another stage.
        """
        match stage:
            case "loops":
                return to_text(self.function)
            case "llvm":
                return self.llvm
            case "asm":
                written = self.written
                return disassemble(written.llvm, codegen=effort_for(written.function))
            case "html":
                page: str = load_module(f"{_REPORTS}.picture").picture(self.function, self.profile)
                return page
            case "profile":
                return self._figures()
        raise ValueError(
            three_lines(
                f"as_text({stage!r}) of {self.name}",
                "the native engine has no such stage",
                "use 'loops', 'llvm', 'asm', 'html' or 'profile'",
            )
        )

    def _figures(self) -> str:
        if self.profile is None:
            raise ValueError(
                three_lines(
                    f"as_text('profile') of {self.name}",
                    "the program is not instrumented",
                    "set KILN_PROFILE=1, or kiln.config.update('profile', True), and compile again",
                )
            )
        return self.profile.table()

    def memory_analysis(self) -> MemoryAnalysis:
        """Return the bytes of arguments, results, temporaries and code, for all named sizes."""
        return self._needed(self.written)

    def explain_memory(self, sizes: Mapping[str, int]) -> str:
        """Return where buffers are, which share memory, and which copies are made and why.

        Numbers are in terms of named sizes; one line is for given sizes.
        """
        written = self.written
        analysis = self._needed(written)
        report: str = load_module(f"{_REPORTS}.memory").memory_report(
            written.function, analysis, written.offsets, self.taken, sizes
        )
        return report

    def _needed(self, written: Written) -> MemoryAnalysis:
        inputs, outputs = written.function.inputs, written.function.outputs
        return MemoryAnalysis(
            sum(buffer.nbytes for buffer in inputs),
            sum(buffer.nbytes for buffer in outputs),
            sum(outputs[result].nbytes for result, _ in self.taken),
            written.workspace,
            len(self.image),
        )

    def size_in_bytes(self) -> int:
        """Return roughly the memory of the program: its object, kept and loaded into pages."""
        return len(self.image) + (len(self.image) // _PAGE + 2) * _PAGE


class NativeExecutable(_runtime.Native):
    """Code with the sizes of its operands, results and temporaries: the callable program.

    `sizes` are the numbers in `Call.sizes` that the code reads, `named` those of the named axes.
    `kept` are the memory blocks of operands that the code takes after `operands`.
    """

    __slots__ = ("code", "named", "operands", "results", "workspace")

    final_stage = "loops"

    def __init__(
        self,
        code: NativeCode,
        operands: Sequence[ValueType],
        results: Sequence[ValueType],
        workspace: int,
        callbacks: Sequence[Callback] = (),
        sizes: Sequence[int] = (),
        named: Sequence[int] = (),
        kept: Sequence[Any] = (),
    ) -> None:
        self.named = named
        super().__init__(
            code.owner.address,
            operands,
            results,
            code.owner,
            workspace=workspace,
            sizes=sizes,
            threads=code.program.threads,
            shared=code.shared,
            reused=code.taken,
            explain=functools.partial(code.explain, named=named) if named else code.explain,
            improve=code.improve,
            calls=code.calls,
            callbacks=[(c.function, c.operands, c.results) for c in callbacks],
            kept=kept,
        )
        self.code, self.workspace = code, workspace
        self.operands, self.results = operands, results

    def over(self, kept: Sequence[Any]) -> NativeExecutable:
        """Return the executable that takes all operands but the last ones, which are `kept`."""
        count = len(self.operands) - len(kept)
        return NativeExecutable(
            self.code, self.operands[:count], self.results, self.workspace, kept=kept
        )

    @property
    def function(self) -> Function:
        """The program as loops."""
        return self.code.function

    @property
    def profile(self) -> Profile | None:
        """The program's measurements, if it is instrumented."""
        return self.code.profile

    @property
    def image(self) -> bytes:
        """The program as an object file."""
        return self.code.image

    @property
    def program(self) -> Program:
        """What was compiled."""
        return self.code.program

    @property
    def taken(self) -> list[tuple[int, int]]:
        """Which results may reuse the memory of donated operands: pairs of their numbers."""
        return self.code.taken

    @property
    def env(self) -> dict[str, int]:
        """The sizes of the named axes."""
        return dict(zip(self.code.program.sizes, self.named, strict=True))

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.code.name

    def as_text(self, stage: str) -> str:
        """Return the program as `loops`, `llvm`, `asm`, `html` or `profile`.

        Raises: ValueError for another stage.
        """
        return self.code.as_text(stage)

    def size_in_bytes(self) -> int:
        """Return roughly the memory of the program: its object, loaded and kept."""
        return self.code.size_in_bytes()

    def out_shardings(self) -> list[Sharding]:
        """Return the device of the program's placement, or the host, for each result."""
        placement = self.code.program.placement
        (device,) = HOST_MEMORY.devices() if placement is None else placement.devices
        return [SingleDeviceSharding(device)] * len(self.results)

    def cost_analysis(self) -> dict[str, float]:
        """Return the `flops` and `bytes accessed` of a call; a `while` loop counts once."""
        sizes = self.env
        return {
            name: float(evaluate(cost, sizes)) if isinstance(cost, Size) else cost
            for name, cost in costs(self.function).items()
        }

    def memory_analysis(self) -> MemoryAnalysis:
        """Return the bytes of arguments, results, temporaries and code."""
        return MemoryAnalysis(
            sum(size for _, size in self.operands),
            sum(size for _, size in self.results),
            sum(self.results[result][1] for result, _ in self.code.taken),
            self.workspace,
            len(self.image),
        )

    def explain_memory(self) -> str:
        """Return where buffers are, which share memory, and which copies are made and why."""
        return self.code.explain_memory(self.env)

    def runtime_executable(self) -> NativeExecutable:
        """Return itself."""
        return self


def named(program: str, image: bytes, address: int) -> object:
    """Publish the symbols of a program's functions for perf and gdb, if requested.

    Return an object that must live as long as the code.
    """
    chosen = options()
    if not (chosen.perf or chosen.gdb):
        return None
    found = loaded_functions(image, ENTRY, address)
    if chosen.perf:
        write_perf_map(program, found)
    return register(program, found, machine_of(image)) if chosen.gdb and found else None


def shared_results(function: Function) -> list[tuple[int, int]]:
    """Return which results are operands: pairs of their numbers."""
    inputs = {buffer: i for i, buffer in enumerate(function.inputs)}
    return [
        (i, inputs[buffer])
        for i, buffer in enumerate(function.outputs)
        if buffer.role is Role.INPUT
    ]


def needs_library(statements: list[Statement]) -> bool:
    """Tell whether kernels are called that use BLAS or LAPACK."""
    return any(
        (isinstance(each, Kernel) and each.symbol.startswith(openblas.KERNELS))
        or any(map(needs_library, each.blocks))
        for each in statements
    )
