"""Programs as native code, called by address."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kiln import _runtime
from kiln.base.config import options
from kiln.base.errors import three_lines
from kiln.core.engine import Program
from kiln.core.host_memory import HOST_MEMORY
from kiln.engines.native import openblas
from kiln.engines.native.analysis import MemoryAnalysis, costs
from kiln.engines.native.checks import raise_fault
from kiln.engines.native.llvm.assembly import disassemble, load
from kiln.engines.native.llvm.functions import ENTRY
from kiln.engines.native.llvm.perf_map import write_perf_map
from kiln.engines.native.loop_ir import Buffer, Function, Kernel, Role, Statement, blocks
from kiln.engines.native.loop_text import to_text
from kiln.engines.native.memory_report import memory_report
from kiln.engines.native.passes.donation import reusable
from kiln.engines.native.picture import picture
from kiln.engines.native.profiling import Profile
from kiln.ir import aliasing
from kiln.ir.sharding import Sharding, SingleDeviceSharding
from kiln.ir.sizes import as_ints

if TYPE_CHECKING:
    from kiln.ir.types import ShapedArray


class Written(NamedTuple):
    """A program as loops and as LLVM text, with the offsets of its temporaries and their bytes."""

    function: Function
    llvm: str
    offsets: dict[Buffer, int]
    workspace: int
    profile: Profile | None


class NativeExecutable(_runtime.Native):
    """A compiled program: an object, loaded, with the bytes that its temporaries need."""

    __slots__ = ("_written", "image", "program", "taken", "workspace")

    final_stage = "loops"

    def __init__(self, program: Program, written: Written, image: bytes) -> None:
        function = written.function
        wanted = aliasing.reused(program.jaxpr, program.donated)
        taken = reusable(function, {result: operand for operand, result in wanted.items()})
        if needs_library(function.body):
            openblas.load()
        code = load(image, ENTRY)
        if options().perf:
            write_perf_map(program.name, image, ENTRY, code.address)
        super().__init__(
            code.address,
            [value_type(v.aval) for v in program.jaxpr.invars],
            [value_type(v.aval) for v in program.jaxpr.outvars],
            code,
            workspace=written.workspace,
            threads=program.threads,
            shared=shared_results(function),
            reused=taken,
            explain=functools.partial(raise_fault, program.name, function.sites),
            callbacks=[(c.function, c.operands, c.results) for c in function.callbacks],
        )
        self.program, self.image, self.taken = program, image, taken
        self._written = written
        self.workspace = written.workspace

    @property
    def written(self) -> Written:
        """The program as loops and LLVM text."""
        return self._written

    @property
    def function(self) -> Function:
        """The program as loops."""
        return self.written.function

    @property
    def llvm(self) -> str:
        """The program as LLVM text."""
        return self.written.llvm

    @property
    def profile(self) -> Profile | None:
        """What the program measures of itself, if it does."""
        return self.written.profile

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.program.name

    def as_text(self, stage: str) -> str:
        """Return the program as `loops`, `llvm` or `asm`, its `profile`, or a picture as `html`.

        Raises: ValueError for another stage.
        """
        match stage:
            case "loops":
                return to_text(self.function)
            case "llvm":
                return self.llvm
            case "asm":
                return disassemble(self.llvm)
            case "html":
                return picture(self.function, self.profile)
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
                    "the program does not measure itself",
                    "set KILN_PROFILE=1, or kiln.config.update('profile', True), and compile again",
                )
            )
        return self.profile.table()

    def size_in_bytes(self) -> int:
        """Return roughly the memory of the program: its object, loaded and kept, and its text."""
        return 2 * len(self.image) + len(self.llvm)

    def out_shardings(self) -> list[Sharding]:
        """Return the device of the program's placement, or the host, for each result."""
        placement = self.program.placement
        (device,) = HOST_MEMORY.devices() if placement is None else placement.devices
        return [SingleDeviceSharding(device)] * len(self.function.outputs)

    def cost_analysis(self) -> dict[str, float]:
        """Return the `flops` and `bytes accessed` of a call; a `while` loop counts as one turn."""
        return costs(self.function)

    def memory_analysis(self) -> MemoryAnalysis:
        """Return the bytes of arguments, results, temporaries and code."""
        inputs, outputs = self.function.inputs, self.function.outputs
        return MemoryAnalysis(
            sum(buffer.nbytes for buffer in inputs),
            sum(buffer.nbytes for buffer in outputs),
            sum(outputs[result].nbytes for result, _ in self.taken),
            self.workspace,
            len(self.image),
        )

    def explain_memory(self) -> str:
        """Return where buffers lie, who shares memory, and which copies are made and why."""
        return memory_report(
            self.function, self.memory_analysis(), self.written.offsets, self.taken
        )

    def runtime_executable(self) -> NativeExecutable:
        """Return itself."""
        return self


def shared_results(function: Function) -> list[tuple[int, int]]:
    """Return which results are operands: pairs of their numbers."""
    inputs = {buffer: i for i, buffer in enumerate(function.inputs)}
    return [
        (i, inputs[buffer])
        for i, buffer in enumerate(function.outputs)
        if buffer.role is Role.INPUT
    ]


def value_type(aval: ShapedArray) -> tuple[np.dtype, int]:
    """Return the dtype of a value in memory, and its bytes."""
    physical = aval.physical()
    return physical.dtype, math.prod(as_ints(physical.shape)) * physical.dtype.itemsize


def needs_library(statements: list[Statement]) -> bool:
    """Tell whether kernels are called that use BLAS or LAPACK."""
    return any(
        (isinstance(each, Kernel) and each.symbol.startswith(openblas.KERNELS))
        or any(map(needs_library, blocks(each)))
        for each in statements
    )
