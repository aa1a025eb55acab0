"""The reference engine: runs each primitive's NumPy meaning.

The smallest engine: the oracle of the tests, the runner of cheap eager operations, and the example
to copy. Buffers are read-only NumPy arrays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from kiln.base.errors import three_lines
from kiln.core.engine import Program
from kiln.core.meaning import meaning
from kiln.ir.footprint import footprint
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sharding import Sharding, SingleDeviceSharding
from kiln.ir.types import ShapedArray


@dataclasses.dataclass(frozen=True)
class HostDevice:
    """The host processor."""

    id: int = 0
    platform: str = "cpu"
    process_index: int = 0


class ReferenceExecutable:
    """A program run equation by equation."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.jaxpr = program.jaxpr

    def __call__(self, buffers: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run the program."""
        with np.errstate(all="ignore"):
            return meaning(self.jaxpr, buffers)

    def as_text(self, stage: str) -> str:
        """Return the jaxpr: there is nothing below it."""
        return str(self.jaxpr)

    def size_in_bytes(self) -> int:
        """Return the size of the jaxpr."""
        return footprint(self.jaxpr)

    def out_shardings(self) -> list[Sharding]:
        """Return the host, for each result."""
        return [SingleDeviceSharding(HostDevice())] * len(self.jaxpr.outvars)

    def cost_analysis(self) -> None:
        """Return None: nobody counts."""

    def memory_analysis(self) -> None:
        """Return None: nobody counts."""

    def runtime_executable(self) -> ReferenceExecutable:
        """Return itself."""
        return self


class ReferenceEngine:
    """Runs programs by meaning."""

    name = "reference"
    host_memory = True

    def devices(self) -> list[HostDevice]:
        """Return the host."""
        return [HostDevice()]

    def put(self, value: np.ndarray, sharding: Sharding | None = None) -> np.ndarray:
        """Copy host data."""
        return value.copy()

    def moved(self, buffer: np.ndarray, aval: ShapedArray, sharding: Sharding) -> np.ndarray:
        """Copy the data: there is one device."""
        return buffer.copy()

    def shards(self, buffer: np.ndarray, sharding: Sharding) -> list[np.ndarray]:
        """Return the one part."""
        return [buffer]

    def join(
        self, aval: ShapedArray, sharding: Sharding, parts: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return the one part."""
        return parts[0]

    def adopt(self, value: np.ndarray) -> np.ndarray:
        """Return the data as it is."""
        return value

    def get(self, buffer: np.ndarray) -> np.ndarray:
        """Return the data as it is."""
        return buffer

    def wait(self, buffer: np.ndarray) -> None:
        """Return at once: programs run on the calling thread."""

    def is_ready(self, buffer: np.ndarray) -> bool:
        """Return True: programs run on the calling thread."""
        return True

    def is_deleted(self, buffer: np.ndarray) -> bool:
        """Return False: what is referred to is there."""
        return False

    def pointer(self, buffer: np.ndarray) -> int:
        """Return the address of the first element."""
        return int(buffer.ctypes.data)

    def barrier(self) -> None:
        """Return at once: programs run on the calling thread."""

    def lower(
        self, program: Program, dialect: str | None = None, *, locations: bool = False
    ) -> str:
        """Return the jaxpr's text, which says nothing of locations.

        Raises: ValueError for any dialect.
        """
        return str(self.compiler_ir(program, dialect))

    def compiler_ir(self, program: Program, dialect: str | None = None) -> Jaxpr:
        """Return the jaxpr.

        Raises: ValueError for any dialect.
        """
        if dialect is not None:
            raise ValueError(
                three_lines(
                    f"the program {program.name} as {dialect!r} on the reference engine",
                    f"unknown dialect: {dialect!r}",
                    "use 'jaxpr', or the xla engine for 'stablehlo' and 'hlo'",
                )
            )
        return program.jaxpr

    def cost_analysis(self, program: Program) -> None:
        """Return None: nobody counts."""

    def described_devices(self, platform: str, topology: str = "") -> NoReturn:
        """Raise ValueError: there is nothing to compile for."""
        raise ValueError(
            three_lines(
                f"the topology {topology!r} of platform {platform} on the reference engine",
                "the reference engine runs programs on the host and compiles for nothing else",
                "use the xla engine",
            )
        )

    def compile(self, program: Program) -> ReferenceExecutable:
        """Return a runner of the program.

        Raises: ValueError for options: there is nothing to set.
        """
        if program.compiler_options:
            raise ValueError(
                three_lines(
                    f"compiling {program.name} with "
                    f"compiler_options={dict(program.compiler_options)} for the reference engine",
                    f"No such compile option: {program.compiler_options[0][0]!r}: the reference "
                    "engine has no options",
                    "leave compiler_options out, or use the xla engine",
                )
            )
        return ReferenceExecutable(program)


def make_engine() -> ReferenceEngine:
    """Return the engine."""
    return ReferenceEngine()
