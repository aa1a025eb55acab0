"""Programs as native code, called by address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.core.engine import Program
from kiln.core.host_memory import HOST_MEMORY
from kiln.engines.native.llvm.assembly import Code
from kiln.engines.native.loop_ir import Function, Kernel, Loop, Role, Statement, While, blocks
from kiln.ir.sharding import Sharding, SingleDeviceSharding

if TYPE_CHECKING:
    from kiln.ir.types import ShapedArray


class NativeExecutable(_runtime.Native):
    """A compiled program."""

    __slots__ = ("code", "function", "llvm", "program")

    def __new__(
        cls, program: Program, function: Function, llvm: str, code: Code, workspace: int
    ) -> NativeExecutable:
        """Return a program whose code is loaded, with the bytes that its temporaries need."""
        inputs = {buffer: i for i, buffer in enumerate(function.inputs)}
        shared = [
            (i, inputs[buffer])
            for i, buffer in enumerate(function.outputs)
            if buffer.role is Role.INPUT
        ]
        self = super().__new__(
            cls,
            code.address,
            [_value_type(v.aval) for v in program.jaxpr.invars],
            [_value_type(v.aval) for v in program.jaxpr.outvars],
            code,
            workspace=workspace,
            has_loops=_has_loops(function.body),
            shared=shared,
        )
        self.program, self.function, self.llvm, self.code = program, function, llvm, code
        return self

    def __init__(self, *args: object) -> None:
        """Do nothing: all is done by `__new__`."""

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.program.name

    def as_text(self, stage: str) -> str:
        """Return the program as `loops`, `llvm` or `asm`.

        Raises: ValueError for another stage.
        """
        match stage:
            case "loops":
                return str(self.function)
            case "llvm":
                return self.llvm
            case "asm":
                return self.code.assembly()
        raise ValueError(
            three_lines(
                f"as_text({stage!r}) of {self.name}",
                "the native engine has no such stage",
                "use 'loops', 'llvm' or 'asm'",
            )
        )

    def size_in_bytes(self) -> int:
        """Return roughly the memory of the program: its code, and its text twice."""
        return self.code.size + 2 * len(self.llvm)

    def out_shardings(self) -> list[Sharding]:
        """Return the host, for each result."""
        return [SingleDeviceSharding(HOST_MEMORY.devices()[0])] * len(self.function.outputs)

    def cost_analysis(self) -> None:
        """Return None: nothing is estimated."""

    def memory_analysis(self) -> None:
        """Return None: nothing is estimated."""

    def runtime_executable(self) -> NativeExecutable:
        """Return itself."""
        return self


def _value_type(aval: ShapedArray) -> tuple[np.dtype, int]:
    physical = aval.physical()
    return physical.dtype, int(np.prod(physical.shape, dtype=np.int64)) * physical.dtype.itemsize


def _has_loops(statements: list[Statement]) -> bool:
    return any(
        isinstance(each, (Loop, While, Kernel)) or any(map(_has_loops, blocks(each)))
        for each in statements
    )
