"""Donated arguments: which results reuse their memory, and their deletion.

A donated array whose memory is usable is deleted after the call, whether or not the engine reused
it: programs behave alike on every engine.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.base.source import current_source
from kiln.core.arrays.array import ConcreteArray, shares_memory
from kiln.execution.compilation import CachedProgram
from kiln.ir.analysis.aliasing import reused


class Donation:
    """The donated inputs of a compiled program; `names` are the names of all inputs in messages."""

    def __init__(self, compiled: CachedProgram, names: Sequence[str]) -> None:
        program = compiled.program
        placement = program.placement
        several = placement is not None and len(placement.devices) > 1
        self.names = names
        self.function = program.name
        self.avals = program.jaxpr.in_avals
        self.donated = program.donated
        self.usable = reused(
            program.jaxpr,
            program.donated,
            placement.in_shardings if placement and several else (),
            compiled.executable.out_shardings() if several else (),
        )

    def warn_of_unusable(self, args: Sequence[Any]) -> None:
        """Warn about donated arrays whose memory fits no result."""
        unusable = [i for i in self.donated if i not in self.usable]
        self._warn([i for i in unusable if isinstance(args[i], ConcreteArray)])

    def refuse_second_use(self, args: Sequence[Any]) -> NoReturn:
        """Raise JaxRuntimeError because an argument is donated and also passed a second time."""
        arrays = [(i, x) for i, x in enumerate(args) if isinstance(x, ConcreteArray)]
        i, j, x = next(
            (i, j, args[i])
            for i in self.donated
            for j, other in arrays
            if j != i and isinstance(args[i], ConcreteArray) and shares_memory(args[i], other)
        )
        one, other = self.names[i], self.names[j]
        raise JaxRuntimeError(
            three_lines(
                f"call of {self.function} with one array of type {x.aval} as {one} and as {other} "
                f"at {current_source()}",
                f"{one} is donated, so its memory cannot be read as {other}: attempt to donate a "
                "buffer that is used twice in the same call",
                f"pass a copy: {other}.copy(), or do not donate {one}",
            )
        )

    def _warn(self, unusable: Sequence[int]) -> None:
        if not unusable:
            return
        types = ", ".join(str(self.avals[i]) for i in unusable)
        who = ", ".join(self.names[i] for i in unusable)
        text = three_lines(
            f"Some donated buffers were not usable: {types}",
            f"call of {self.function}: no result is left that has the size of argument {who}",
            "donate arguments that results of the same size replace",
        )
        source = current_source()
        file, line = (source.file, source.line) if source else ("<unknown>", 0)
        warnings.warn_explicit(text, UserWarning, file, line)
