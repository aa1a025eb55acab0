"""The compiler of the xla engine: from a program to StableHLO, and to XLA's executable.

`module.lower` writes the text, `client` compiles it; executables are in `launches/`.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Collection, Sequence
from typing import Any, TypeGuard, cast

import numpy as np

from kiln.base.errors import UnsupportedPrimitive, three_lines
from kiln.base.signals import HeldBack
from kiln.core.engines.artifacts import Artifact
from kiln.core.engines.engine import Placement, Program
from kiln.core.engines.topology import DescribedDevice
from kiln.engines.xla.artifacts import artifact, artifact_text
from kiln.engines.xla.launches.effects import Effects
from kiln.engines.xla.launches.executable import (
    CallingExecutable,
    EffectfulExecutable,
    Levels,
    XlaExecutable,
    with_token,
)
from kiln.engines.xla.launches.levels import client_of_level
from kiln.engines.xla.launches.shared_programs import exchanges_data, prepare, processes_of
from kiln.engines.xla.program_module import lowered_program
from kiln.engines.xla.raised import large_constants, raised
from kiln.engines.xla.runtime.client import Client, client, is_alone, jaxlib_version
from kiln.engines.xla.runtime.layouts import output_blocks
from kiln.engines.xla.stablehlo.mlir import hlo, parse
from kiln.engines.xla.stablehlo.module import LoweredModule
from kiln.engines.xla.targets.ahead_of_time import DescribedExecutable, require_translated
from kiln.engines.xla.targets.plugins import described_devices
from kiln.engines.xla.untrusted import check_artifacts
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import (
    Blocks,
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    named_like,
)
from kiln.ir.types import ShapedArray

_LOWERED = "module of the xla engine"


class XlaCompiler:
    """Compiles programs for the devices of one platform."""

    places_programs = True
    dialects = ("stablehlo", "hlo")

    def __init__(self, platform: str, effects: Effects) -> None:
        self._platform = platform
        self._effects = effects

    def unsupported(self, program: Program) -> str | None:
        """Return why the program cannot be lowered, or None; it is not compiled."""
        try:
            lowered, placement = lowered_program(program), program.placement
            if _is_described(placement):
                require_translated(program, lowered, placement.devices[0])
        except UnsupportedPrimitive as error:
            return str(error).splitlines()[1]
        return None

    def compile(self, program: Program) -> XlaExecutable | DescribedExecutable:
        """Compile a program.

        Raises: UnsupportedPrimitive; JaxRuntimeError for errors of XLA.
        """
        lowered = _lowered_once(program)
        here, placement = client(self._platform), program.placement
        free = _free_outputs(program, lowered)
        if _is_described(placement):
            return DescribedExecutable(program, lowered, placement.devices, free)
        group = processes_of(placement)
        digest = prepare(program, lowered, group) if group else ""
        levels = None
        if lowered.callbacks and is_alone(self._platform):
            make = functools.partial(self._of_level, program, lowered)
            levels = Levels(here, _given(program), make)
            here, lowered = client_of_level(0), lowered.at(0)
        raw = _compiled(program, lowered, here)
        with HeldBack():
            made = self._executable(program, lowered, raw, here, levels)
            if group and (lowered.callbacks or exchanges_data(raw)):
                made.share(group, digest)
            return made

    def _of_level(self, program: Program, lowered: LoweredModule, level: int) -> XlaExecutable:
        """Compile a program that calls Python for a level other than the first."""
        here, lowered = client_of_level(level), lowered.at(level)
        raw = _compiled(program, lowered, here)
        with HeldBack():
            shardings, handlers, everywhere = _results(program, lowered, raw, here)
            if lowered.effects:
                handlers = with_token(here, handlers, everywhere)
            return XlaExecutable(here, raw, handlers, program.name, lowered, shardings)

    def digest(self, program: Program) -> str | None:
        """Return a hash of the module, the compile options, jaxlib and the CPU.

        Returns None for programs that call Python, and for machines that are not present.
        """
        lowered, placement = lowered_program(program), program.placement
        # It will be loaded or compiled next.
        program.jaxpr.memo[_LOWERED] = program, lowered
        if lowered.callbacks or lowered.effects or _is_described(placement):
            return None
        parts = (
            lowered.text,
            program.compiler_options,
            [(d.id, d.process_index) for d in placement.devices] if placement else [],
            _free_outputs(program, lowered),
            jaxlib_version(),
            client(self._platform).fingerprint(),
            os.environ.get("XLA_FLAGS", ""),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def serialize(self, executable: Any) -> bytes:
        """Return an executable as bytes, for this version of jaxlib and this type of CPU.

        Raises: ValueError for programs that call Python functions; JaxRuntimeError for those that
            XLA cannot serialize.
        """
        stored: bytes = executable.serialize()
        return stored

    def load(self, program: Program, stored: bytes) -> XlaExecutable:
        """Load the executable of a program from the result of `serialize`.

        Raises: JaxRuntimeError if XLA cannot load them.
        """
        lowered, placement = _lowered_once(program), program.placement
        group = processes_of(placement)
        digest = prepare(program, lowered, group) if group else ""
        raw = client(self._platform).deserialize(
            stored,
            uses_lapack="lapack_" in lowered.text,
            settings=program.compiler_options,
            devices=placement.devices if placement else (),
            free_outputs=_free_outputs(program, lowered),
        )
        with HeldBack():
            made = self._executable(program, lowered, raw, client(self._platform), None)
            made.stored_size = len(stored)
            if group and exchanges_data(raw):
                made.share(group, digest)
            return made

    def text(self, program: Program, dialect: str | None = None, *, locations: bool = False) -> str:
        """Return the program as StableHLO, or as HLO before XLA's optimizations.

        Raises: ValueError for another dialect.
        """
        wanted = _dialect(program, dialect)
        text = lowered_program(program, locations=locations).text
        return text if wanted == "stablehlo" else str(hlo(text).as_hlo_text())

    def compiler_ir(self, program: Program, dialect: str | None = None) -> Any:
        """Return the program as jaxlib's MLIR module (`stablehlo`) or computation (`hlo`).

        Raises: ValueError for another dialect.
        """
        wanted = _dialect(program, dialect)
        text = lowered_program(program).text
        return parse(text) if wanted == "stablehlo" else hlo(text)

    def artifact(
        self, program: Program, platforms: Sequence[str], allowed_calls: Collection[str]
    ) -> Artifact:
        """Return a program as a portable artifact for some platforms.

        Raises: NotImplementedError, naming what cannot be stored.
        """
        return artifact(program, platforms, allowed_calls)

    def check_artifacts(self, stored: Sequence[bytes]) -> None:
        """Check that untrusted artifacts can be read, in a separate process.

        Raises: ValueError if one cannot.
        """
        check_artifacts(stored)

    def large_constants(self, stored: bytes) -> list[np.ndarray]:
        """Return the large constants of an artifact, each once.

        Raises: ValueError for bytes that are not an artifact.
        """
        return large_constants(stored)

    def raised_artifact(
        self,
        name: str,
        stored: bytes,
        types: Sequence[ShapedArray],
        results: Sequence[ShapedArray],
        number: int | None,
        is_refined: bool,
        constants: Sequence[np.ndarray],
    ) -> Jaxpr:
        """Return an artifact as a jaxpr, for operands and results of given types.

        Raises: UnsupportedPrimitive, naming an operation that kiln has no counterpart for.
        """
        return raised(name, stored, types, results, number, is_refined, constants)

    def artifact_text(self, stored: bytes) -> str:
        """Return a portable artifact as StableHLO text.

        Raises: ValueError for bytes that are not an artifact.
        """
        return artifact_text(stored)

    def cost(self, program: Program) -> dict[str, float]:
        """Return XLA's cost estimates for the program before optimization."""
        return client(self._platform).costs(self.text(program))

    def described_devices(self, platform: str, topology: str = "") -> tuple[DescribedDevice, ...]:
        """Return the devices of a machine that is not present.

        Raises: ValueError for an unknown platform; JaxRuntimeError saying what to install.
        """
        return described_devices(platform, topology)

    def _executable(
        self,
        program: Program,
        lowered: LoweredModule,
        raw: Any,
        here: Client,
        levels: Levels | None,
    ) -> XlaExecutable:
        shardings, handlers, everywhere = _results(program, lowered, raw, here)
        known = here, raw, handlers, program.name, lowered, shardings
        if lowered.effects:
            return EffectfulExecutable(*known, self._effects, levels, everywhere)
        if lowered.callbacks:
            return CallingExecutable(*known, self._effects, levels)
        return XlaExecutable(*known, program if program.placement is None else None)


def _compiled(program: Program, lowered: LoweredModule, here: Client) -> Any:
    placement = program.placement
    return here.compile(
        lowered.text,
        name=program.name,
        settings=program.compiler_options,
        callbacks=lowered.callbacks,
        devices=placement.devices if placement else (),
        free_outputs=_free_outputs(program, lowered),
    )


def _given(program: Program) -> Sequence[Sharding | None]:
    """Return the shardings of operands."""
    placement = program.placement
    if placement is None:
        return [None] * len(program.jaxpr.invars)
    return placement.in_shardings or [_everywhere(placement)] * len(program.jaxpr.invars)


def _results(
    program: Program, lowered: LoweredModule, raw: Any, here: Client
) -> tuple[list[Any], list[Any], Sharding | None]:
    """Return the shardings and handlers of results, and where tokens are."""
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
    return shardings, handlers, everywhere


def _lowered_once(program: Program) -> LoweredModule:
    """Return the module that `digest` wrote, if it was called for this program last."""
    known = program.jaxpr.memo.pop(_LOWERED, None)
    return known[1] if known is not None and known[0] is program else lowered_program(program)


def _free_outputs(program: Program, lowered: LoweredModule) -> list[bool]:
    """Return which results, after the token if there is one, XLA may shard as it chooses."""
    placement = program.placement
    several = placement is not None and len(placement.devices) > 1
    wanted = placement.out_shardings if placement and several else ()
    tokens = [False] if lowered.effects else []
    return [*tokens, *(sharding is None for sharding in wanted)]


def _is_described(placement: Placement | None) -> TypeGuard[Placement]:
    return placement is not None and isinstance(placement.devices[0], DescribedDevice)


def _everywhere(placement: Placement) -> Sharding:
    if len(placement.devices) == 1 and placement.mesh is None:
        return SingleDeviceSharding(placement.devices[0])
    return NamedSharding(placement.mesh or Mesh(placement.devices, "devices"), PartitionSpec())


def _named_alone(placement: Placement, jaxpr: Jaxpr) -> list[Sharding]:
    """Return the named shardings of results on one device, where all shardings are equivalent.

    They are the requested ones; those of an operand of the same shape; or replicated.
    """
    by_shape: dict[Any, Sharding] = {}
    for aval, sharding in zip(jaxpr.in_avals, placement.in_shardings, strict=True):
        by_shape.setdefault(aval.shape, sharding)
    whole = _everywhere(placement)
    return [
        wanted or by_shape.get(aval.shape, whole)
        for aval, wanted in zip(jaxpr.out_avals, placement.out_shardings, strict=True)
    ]


def _out_shardings(
    raw: Any, placement: Placement, avals: Sequence[ShapedArray], with_token: bool
) -> list[Sharding]:
    """Return the named shardings of the results: the requested ones, or XLA's choice."""
    ndims = [1] * with_token + [
        aval.ndim if wanted is None else None
        for wanted, aval in zip(placement.out_shardings, avals, strict=True)
    ]
    found = output_blocks(raw, ndims, len(placement.devices))[int(with_token) :]
    return [
        wanted or named_like(placement.devices, cast(Blocks, blocks), placement.mesh)
        for wanted, blocks in zip(placement.out_shardings, found, strict=True)
    ]


def _dialect(program: Program, dialect: str | None) -> str:
    if dialect not in (None, "stablehlo", "hlo"):
        raise ValueError(
            three_lines(
                f"the program {program.name} as {dialect!r}",
                f"unknown dialect: {dialect!r}",
                "use 'stablehlo', 'hlo' or 'jaxpr'",
            )
        )
    return dialect or "stablehlo"
