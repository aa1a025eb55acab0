"""Executables for machines that are not present: inspected and serialized, never run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast

from kiln.base.errors import JaxRuntimeError, UnsupportedPrimitive, three_lines
from kiln.core.engines.engine import Program
from kiln.core.engines.topology import DescribedDevice
from kiln.engines.xla.runtime.binding import XlaError
from kiln.engines.xla.runtime.buffers import Buffer
from kiln.engines.xla.runtime.layouts import output_blocks
from kiln.engines.xla.stablehlo.module import LoweredModule
from kiln.engines.xla.targets.plugins import compile_for
from kiln.ir.shardings.sharding import Blocks, Sharding, SingleDeviceSharding, named_like

# Routines that exist only on the host: LAPACK's, and callbacks to Python.
_ON_HOST = ("lapack_", "xla_ffi_python_cpu_callback")


def require_translated(program: Program, lowered: LoweredModule, device: DescribedDevice) -> None:
    """Raise UnsupportedPrimitive if the module calls a routine that exists only on the host."""
    for routine in _ON_HOST:
        if routine in lowered.text:
            raise UnsupportedPrimitive(
                three_lines(
                    f"compiling {program.name} for {device}",
                    f"the program calls {routine.rstrip('_')}, which only the cpu has",
                    "leave linear algebra solvers and Python callbacks out of this program",
                )
            )


class DescribedExecutable:
    """A program compiled for a described device."""

    def __init__(
        self,
        program: Program,
        lowered: LoweredModule,
        devices: Sequence[DescribedDevice],
        free_outputs: Sequence[bool],
    ) -> None:
        require_translated(program, lowered, devices[0])
        self.device = devices[0]
        self.name = program.name
        self.program = program
        self.lowered = lowered
        self.raw = compile_for(
            devices, lowered.text, program.name, program.compiler_options, free_outputs
        )

    def out_shardings(self) -> list[Sharding]:
        """Return the shardings of the results: the requested ones, or XLA's choice."""
        placement, avals = self.program.placement, self.program.jaxpr.out_avals
        assert placement is not None
        if len(placement.devices) == 1:
            return [SingleDeviceSharding(self.device)] * len(avals)
        found = output_blocks(
            self.raw,
            [None if s else a.ndim for s, a in zip(placement.out_shardings, avals, strict=True)],
            len(placement.devices),
        )
        return [
            wanted or named_like(placement.devices, cast(Blocks, blocks), placement.mesh)
            for wanted, blocks in zip(placement.out_shardings, found, strict=True)
        ]

    def __call__(self, buffers: Sequence[Buffer]) -> NoReturn:
        """Raise: the device is not present."""
        raise JaxRuntimeError(
            three_lines(
                f"call of {self.name}, compiled ahead of time for {self.device}",
                f"a described {self.device.platform} device cannot run programs",
                "compile for a device of kiln.devices() to run the program",
            )
        )

    def as_text(self, stage: str) -> str:
        """Return the program before (`stablehlo`) or after (`hlo`) XLA's optimizations.

        Raises: ValueError for another stage.
        """
        if stage == "stablehlo":
            return self.lowered.text
        if stage == "hlo":
            return "\n".join(module.to_string() for module in self.raw.hlo_modules())
        raise ValueError(
            three_lines(
                f"as_text({stage!r}) of {self.name}",
                "the xla engine has no such stage",
                "use 'stablehlo' or 'hlo'",
            )
        )

    def cost_analysis(self) -> dict[str, float] | None:
        """Return XLA's estimates; None for platforms without estimates."""
        try:
            return dict(self.raw.cost_analysis())
        except XlaError:
            return None

    def memory_analysis(self) -> Any:
        """Return XLA's memory use."""
        return self.raw.get_compiled_memory_stats()

    def serialize(self) -> bytes:
        """Return the program as bytes, in the platform's own format."""
        return bytes(self.raw.serialize())

    def runtime_executable(self) -> Any:
        """Return jaxlib's executable."""
        return self.raw
