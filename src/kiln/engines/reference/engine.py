"""The reference engine: runs each primitive's NumPy meaning.

The smallest engine: the oracle of the tests, the engine of cheap eager operations, and a template
for others. Its memory is `core/arrays/host_memory.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from kiln.base.errors import OutOfMemoryError, three_lines
from kiln.core.arrays.host_memory import HOST_MEMORY
from kiln.core.engines.engine import Program
from kiln.core.meaning import meaning
from kiln.ir.analysis.footprint import footprint
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.shardings.sharding import Sharding, SingleDeviceSharding


class ReferenceExecutable:
    """A program run equation by equation."""

    final_stage = "jaxpr"

    def __init__(self, program: Program) -> None:
        self.program = program
        self.jaxpr = program.jaxpr

    def __call__(self, buffers: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run the program."""
        try:
            with np.errstate(all="ignore"):
                return meaning(self.jaxpr, buffers)
        except MemoryError as error:
            if isinstance(error, OutOfMemoryError):
                raise
            lacking = three_lines(
                f"running {self.program.name}",
                f"RESOURCE_EXHAUSTED: Out of memory: {error}",
                "use smaller arrays, or work part by part (lax.map, lax.scan)",
            )
        raise OutOfMemoryError(lacking)

    def as_text(self, stage: str) -> str:
        """Return the jaxpr, the only stage."""
        return str(self.jaxpr)

    def size_in_bytes(self) -> int:
        """Return the size of the jaxpr."""
        return footprint(self.jaxpr)

    def out_shardings(self) -> list[Sharding]:
        """Return the host, for each result."""
        return [SingleDeviceSharding(HOST_MEMORY.devices()[0])] * len(self.jaxpr.outvars)

    def cost_analysis(self) -> None:
        """Return None: nothing is estimated."""

    def memory_analysis(self) -> None:
        """Return None: nothing is estimated."""

    def runtime_executable(self) -> ReferenceExecutable:
        """Return itself."""
        return self


class ReferenceCompiler:
    """Wraps programs: nothing is compiled."""

    places_programs = False
    dialects = ()

    def unsupported(self, program: Program) -> str | None:
        """Return which compiler option was given, if any: each primitive has a meaning."""
        if not program.engine_options:
            return None
        return (
            f"No such compile option: {program.engine_options[0][0]!r}: the reference engine has "
            "no options"
        )

    def compile(self, program: Program) -> ReferenceExecutable:
        """Return a runner of the program.

        Raises: ValueError for options: there is nothing to set.
        """
        reason = self.unsupported(program)
        if reason is not None:
            raise ValueError(
                three_lines(
                    f"compiling {program.name} with "
                    f"compiler_options={dict(program.compiler_options)} for the reference engine",
                    reason,
                    "leave compiler_options out, or use the xla engine",
                )
            )
        return ReferenceExecutable(program)

    def text(self, program: Program, dialect: str | None = None, *, locations: bool = False) -> str:
        """Return the jaxpr's text, which has no locations.

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

    def cost(self, program: Program) -> None:
        """Return None: nothing is estimated."""

    def described_devices(self, platform: str, topology: str = "") -> NoReturn:
        """Raise ValueError: there is nothing to compile for."""
        raise ValueError(
            three_lines(
                f"the topology {topology!r} of platform {platform} on the reference engine",
                "the reference engine runs programs on the host and compiles for nothing else",
                "use the xla engine",
            )
        )


class ReferenceEngine:
    """Runs programs by meaning."""

    name = "reference"
    memory = HOST_MEMORY
    compiler = ReferenceCompiler()

    def barrier(self) -> None:
        """Return at once: programs run on the calling thread."""


def make_engine() -> ReferenceEngine:
    """Return the engine."""
    return ReferenceEngine()
