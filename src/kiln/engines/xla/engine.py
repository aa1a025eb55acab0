"""The xla engine: programs compiled by XLA through jaxlib.

Puts together the parts: `module.lower` writes StableHLO, `client` compiles and runs it. Programs
with effects are wrapped so that ordered ones follow each other and `barrier` can wait for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.signals import HeldBack
from kiln.core.engine import Placement, Program
from kiln.core.topology import DescribedDevice
from kiln.engines.xla import client as runtime
from kiln.engines.xla.ahead_of_time import DescribedExecutable
from kiln.engines.xla.client import Buffer, Device
from kiln.engines.xla.effects import Effects
from kiln.engines.xla.host_operands import sharer, staged_operands
from kiln.engines.xla.lowerings import LOWERINGS
from kiln.engines.xla.mlir import hlo, parse
from kiln.engines.xla.module import LoweredModule, lower
from kiln.engines.xla.plugins import described_devices
from kiln.engines.xla.serialized_launches import InTurn
from kiln.ir.aliasing import reused
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.mesh import Mesh, PartitionSpec
from kiln.ir.sharding import NamedSharding, Sharding, SingleDeviceSharding, named_like
from kiln.ir.types import ShapedArray


class XlaExecutable(runtime.Loaded):
    """A compiled program. Calling it runs it; results may still be on their way."""

    __slots__ = ("lowered", "shardings")

    def __init__(
        self,
        raw: Any,
        handlers: Sequence[Any],
        name: str,
        lowered: LoweredModule,
        shardings: Sequence[Sharding],
        staged: Program | None = None,
    ) -> None:
        if staged is None:
            super().__init__(raw, handlers, name)
        else:
            super().__init__(raw, handlers, name, staged_operands(staged), sharer(staged))
        if len(raw.local_devices()) > 1:
            self._execute = InTurn(raw, name, lowered.callbacks)
        self._calls_host = bool(lowered.callbacks)
        self.lowered = lowered
        self.shardings = shardings

    def out_shardings(self) -> Sequence[Sharding]:
        """Return how the results are cut; of a program with a placement only."""
        return self.shardings

    def as_text(self, stage: str) -> str:
        """Return the program before (`stablehlo`) or after (`hlo`) XLA's optimizations.

        Raises: ValueError for another stage.
        """
        if stage == "stablehlo":
            return self.lowered.text
        if stage == "hlo":
            return str(self.raw.get_hlo_text())
        raise ValueError(
            three_lines(
                f"as_text({stage!r}) of {self.name}",
                "the xla engine has no such stage",
                "use 'stablehlo' or 'hlo'",
            )
        )

    def cost_analysis(self) -> dict[str, float]:
        """Return XLA's estimates, such as `flops` and `bytes accessed`."""
        return dict(self.raw.cost_analysis())

    def memory_analysis(self) -> Any:
        """Return XLA's memory use: `argument_size_in_bytes`, `temp_size_in_bytes`, ..."""
        return self.raw.get_compiled_memory_stats()

    def size_in_bytes(self) -> int:
        """Return roughly the memory XLA holds for the program."""
        calls_host = bool(self.lowered.callbacks)
        return runtime.client().resident_size(self.raw, calls_host=calls_host)

    def runtime_executable(self) -> Any:
        """Return jaxlib's executable."""
        return self.raw

    def serialize(self) -> bytes:
        """Return the program as bytes, for this version of jaxlib and this kind of processor.

        Raises: ValueError for programs that call Python functions.
        """
        if self.lowered.callbacks:
            raise ValueError(
                three_lines(
                    f"serialize() of {self.name}",
                    f"the program calls {len(self.lowered.callbacks)} Python functions, which "
                    "cannot be written down",
                    "compile it in the process that runs it",
                )
            )
        return runtime.client().serialize(self.raw)


class CallingExecutable(XlaExecutable):
    """A program that calls Python functions which only compute."""

    __slots__ = ("_effects",)

    def __init__(
        self,
        raw: Any,
        handlers: Sequence[Any],
        name: str,
        lowered: LoweredModule,
        shardings: Sequence[Sharding],
        effects: Effects,
    ) -> None:
        super().__init__(raw, handlers, name, lowered, shardings)
        self._effects = effects

    def __call__(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """Enqueue the program."""
        outs = super().__call__(buffers)
        if outs:
            self._effects.watch(outs[0])
        return outs


class EffectfulExecutable(XlaExecutable):
    """A program with effects: its first result is a token, by which the engine waits for it."""

    __slots__ = ("_effects", "_everywhere")

    def __init__(
        self,
        raw: Any,
        handlers: Sequence[Any],
        name: str,
        lowered: LoweredModule,
        shardings: Sequence[Sharding],
        effects: Effects,
        everywhere: Sharding | None,
    ) -> None:
        handlers = [runtime.client().token_handler(everywhere), *handlers]
        super().__init__(raw, handlers, name, lowered, shardings)
        self._effects = effects
        self._everywhere = everywhere

    def __call__(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """Enqueue the program, after earlier ones if it has ordered effects."""
        effects = self._effects
        if not self.lowered.ordered:
            token, *outs = super().__call__(buffers)
            effects.add(token)
            return outs
        # Held while the program is enqueued, not while it runs to its end. Small programs do run
        # inside, and their callbacks may come back here on the same thread: hence reentrant.
        with effects.lock:
            token, *outs = super().__call__([effects.take_order(self._everywhere), *buffers])
            effects.order = token, self._everywhere
        effects.add(token)
        return outs


class XlaEngine:
    """Runs programs by XLA."""

    name = "xla"
    host_memory = False

    def __init__(self) -> None:
        self._effects = Effects()

    def devices(self) -> Sequence[Device]:
        """Return the devices of this process."""
        return runtime.client().devices

    def put(self, value: np.ndarray, sharding: Sharding | None = None) -> Buffer:
        """Copy host data into a new buffer."""
        return runtime.client().put(value, sharding)

    def moved(self, buffer: Buffer, aval: ShapedArray, sharding: Sharding) -> Buffer:
        """Copy a buffer from one device to another, past the host."""
        return runtime.client().moved(buffer, aval.ndim, sharding)

    def shards(self, buffer: Buffer, sharding: Sharding) -> Sequence[Buffer]:
        """Return the parts of a buffer on several devices, in the order of its sharding."""
        return runtime.client().shards(buffer, sharding)

    def join(self, aval: ShapedArray, sharding: Sharding, parts: Sequence[Buffer]) -> Buffer:
        """Make one buffer of its parts, without a copy."""
        return runtime.client().join(aval, sharding, parts)

    def adopt(self, value: np.ndarray) -> Buffer:
        """Make a buffer of host memory nobody will write again; shared if 64-byte aligned."""
        return runtime.client().put(value, share=True)

    get = staticmethod(runtime.get)
    wait = staticmethod(runtime.wait)

    def is_ready(self, buffer: Buffer) -> bool:
        """Tell whether a buffer's data is there."""
        return runtime.is_ready(buffer)

    def is_deleted(self, buffer: Buffer) -> bool:
        """Tell whether a buffer was freed or donated."""
        return runtime.is_deleted(buffer)

    def pointer(self, buffer: Buffer) -> int:
        """Return the address of a buffer's first element."""
        return runtime.pointer(buffer)

    def barrier(self) -> None:
        """Wait until every program with effects has ended."""
        self._effects.barrier()

    def lower(
        self, program: Program, dialect: str | None = None, *, locations: bool = False
    ) -> str:
        """Return the program as StableHLO, or as HLO before XLA's optimizations.

        Raises: ValueError for another dialect.
        """
        wanted = _dialect(program, dialect)
        text = _lowered(program, locations=locations).text
        return text if wanted == "stablehlo" else str(hlo(text).as_hlo_text())

    def compiler_ir(self, program: Program, dialect: str | None = None) -> Any:
        """Return the program as jaxlib's MLIR module (`stablehlo`) or computation (`hlo`).

        Raises: ValueError for another dialect.
        """
        wanted = _dialect(program, dialect)
        text = _lowered(program).text
        return parse(text) if wanted == "stablehlo" else hlo(text)

    def cost_analysis(self, program: Program) -> dict[str, float]:
        """Return XLA's estimates for the program as it is written."""
        return runtime.client().costs(self.lower(program))

    def described_devices(self, platform: str, topology: str = "") -> tuple[DescribedDevice, ...]:
        """Return the devices of a machine that is not there.

        Raises: ValueError for an unknown platform; JaxRuntimeError saying what to install.
        """
        return described_devices(platform, topology)

    def compile(self, program: Program) -> XlaExecutable | DescribedExecutable:
        """Compile a program.

        Raises: UnsupportedPrimitive; JaxRuntimeError for what XLA refuses.
        """
        lowered = _lowered(program)
        here = runtime.client()
        placement = program.placement
        several = placement is not None and len(placement.devices) > 1
        wanted = placement.out_shardings if placement and several else ()
        tokens = [False] if lowered.effects else []
        free = [*tokens, *(sharding is None for sharding in wanted)]
        if placement is not None and isinstance(placement.devices[0], DescribedDevice):
            return DescribedExecutable(program, lowered, placement.devices, free)
        raw = here.compile(
            lowered.text,
            name=program.name,
            settings=program.compiler_options,
            callbacks=lowered.callbacks,
            devices=placement.devices if placement else (),
            free_outputs=free,
        )
        with HeldBack():
            return self._loaded(program, lowered, raw)

    def _loaded(self, program: Program, lowered: LoweredModule, raw: Any) -> XlaExecutable:
        here = runtime.client()
        placement, avals = program.placement, program.jaxpr.out_avals
        shardings: list[Any] = [None] * len(avals)
        everywhere: Sharding | None = None
        if placement is not None:
            everywhere = _everywhere(placement)
            if len(placement.devices) > 1:
                shardings = _out_shardings(raw, placement, avals, bool(lowered.effects))
            elif placement.mesh is not None:
                shardings = _named_alone(placement, program.jaxpr)
            else:
                shardings = [everywhere] * len(avals)
        handlers = [here.handler(a, s) for a, s in zip(avals, shardings, strict=True)]
        if lowered.effects:
            return EffectfulExecutable(
                raw, handlers, program.name, lowered, shardings, self._effects, everywhere
            )
        if lowered.callbacks:
            return CallingExecutable(raw, handlers, program.name, lowered, shardings, self._effects)
        staged = program if placement is None else None
        return XlaExecutable(raw, handlers, program.name, lowered, shardings, staged)


def _lowered(program: Program, *, locations: bool = False) -> LoweredModule:
    placement = program.placement
    several = placement is not None and len(placement.devices) > 1
    return lower(
        program.jaxpr,
        program.name,
        LOWERINGS,
        aliases={} if several else reused(program.jaxpr, program.donated),
        # How big the parts of results are is not known yet: XLA pairs inputs and outputs.
        donors=program.donated if several else (),
        placement=placement,
        locations=locations,
    )


def _everywhere(placement: Placement) -> Sharding:
    if len(placement.devices) == 1 and placement.mesh is None:
        return SingleDeviceSharding(placement.devices[0])
    return NamedSharding(placement.mesh or Mesh(placement.devices, "devices"), PartitionSpec())


def _named_alone(placement: Placement, jaxpr: Jaxpr) -> list[Sharding]:
    """Return the shardings of results on one device, where all cuts are alike, by name.

    They are those asked for; those of an operand of the same shape; or whole.
    """
    cuts: dict[Any, Sharding] = {}
    for aval, cut in zip(jaxpr.in_avals, placement.in_shardings, strict=True):
        cuts.setdefault(aval.shape, cut)
    whole = _everywhere(placement)
    return [
        wanted or cuts.get(aval.shape, whole)
        for aval, wanted in zip(jaxpr.out_avals, placement.out_shardings, strict=True)
    ]


def _out_shardings(
    raw: Any, placement: Placement, avals: Sequence[ShapedArray], with_token: bool
) -> list[Sharding]:
    """Return the shardings of the results: those asked for, or what XLA chose, by name."""
    ndims = [1] * with_token + [aval.ndim for aval in avals]
    found = runtime.output_blocks(raw, ndims, len(placement.devices))[int(with_token) :]
    return [
        named_like(placement.devices, blocks, placement.mesh) if wanted is None else wanted
        for wanted, blocks in zip(placement.out_shardings, found, strict=True)
    ]


def _dialect(program: Program, dialect: str | None) -> str:
    if dialect not in (None, "stablehlo", "hlo"):
        raise ValueError(
            three_lines(
                f"the program {program.name} as {dialect!r} on the xla engine",
                f"unknown dialect: {dialect!r}",
                "use 'stablehlo', 'hlo' or 'jaxpr'",
            )
        )
    return dialect or "stablehlo"


def make_engine() -> XlaEngine:
    """Return the engine."""
    return XlaEngine()
