"""Programs with named axes: compiled once for all sizes, if their engine can.

The cache holds the program for all sizes; a program for given sizes runs its code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from kiln.base.caches.bounded import CLOCK
from kiln.base.options.config import options
from kiln.core.engines.engine import Executable, NotForAllSizes, Program, engine
from kiln.execution.compilation import (
    CachedProgram,
    ProgramKey,
    Variant,
    cached_program,
    compiled_once,
)
from kiln.execution.engine_choice import (
    HOST_COMPILER,
    compiles_for_all_sizes,
    compiling,
    engine_for,
)
from kiln.execution.programs import program_of
from kiln.ir.analysis.user_code import is_shareable
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.rewrite import canonical_for_engines
from kiln.ir.specialize import out_types
from kiln.ir.types import ShapedArray

_FOR_EACH_SIZE = "why it is compiled for each size"

Wanted = tuple[bool, tuple[tuple[str, Any], ...], tuple[int, ...]]
"""Whether unused inputs are kept, options of the compiler, and which inputs are donated."""


def compile_for_sizes(
    jaxpr: Jaxpr,
    name: str,
    sizes: Mapping[str, int],
    out_avals: Sequence[ShapedArray],
    *,
    keep_unused: bool = False,
    compiler_options: tuple[tuple[str, Any], ...] = (),
    donated: tuple[int, ...] = (),
) -> CachedProgram | str:
    """Return the program of a jaxpr with named axes for sizes, compiled once for all of them.

    Return the reason if it has to be compiled for each size.
    """
    wanted = (keep_unused, compiler_options, donated)
    reason = _why_for_each(jaxpr, sizes, wanted)
    if reason is not None:
        return reason
    choice = engine_for(jaxpr, None, options())
    known = (compile_for_sizes, wanted, (*sizes,), options().key())
    is_shared = is_shareable(jaxpr)
    key = jaxpr.memo.get(known)
    if key is None:
        identity = canonical_for_engines(jaxpr) if is_shared else id(jaxpr)
        key = jaxpr.memo[known] = ProgramKey(identity, "all sizes", (wanted, (*sizes,)))
    found = cached_program(key)
    if found is None:

        def new() -> CachedProgram:
            program, kept = _program_of(jaxpr, name, sizes, wanted)
            made = compiling(choice, program)
            return CachedProgram(key, program, made, kept, None if is_shared else jaxpr)

        try:
            found = compiled_once(key, new)[0]
        except NotForAllSizes as error:
            jaxpr.memo[_reason_key(wanted)] = str(error)
            return str(error)
    made = ProgramForSizes(found, jaxpr, (*sizes.values(),), out_avals)
    try:
        made._call = made.executable
    except NotForAllSizes as error:
        return str(error)
    return made


def program_for_sizes(
    jaxpr: Jaxpr, name: str, sizes: Mapping[str, int], wanted: Wanted
) -> Program | str:
    """Return the program that is compiled once for all sizes, or the reason why there is none."""
    reason = _why_for_each(jaxpr, sizes, wanted)
    if reason is not None:
        return reason
    try:
        return _program_of(jaxpr, name, sizes, wanted)[0]
    except NotForAllSizes as error:
        return str(error)


def _why_for_each(jaxpr: Jaxpr, sizes: Mapping[str, int], wanted: Wanted) -> str | None:
    """Return the known reason why a program cannot be compiled for all sizes."""
    choice = engine_for(jaxpr, None, options())
    if not compiles_for_all_sizes(choice):
        return f"the engine {choice.name} compiles for each size"
    if not all(sizes.values()):
        return "a size is 0"
    found: str | None = jaxpr.memo.get(_reason_key(wanted))
    return found


def _reason_key(wanted: Wanted) -> Hashable:
    return _FOR_EACH_SIZE, wanted, options().key()


def _program_of(
    jaxpr: Jaxpr, name: str, sizes: Mapping[str, int], wanted: Wanted
) -> tuple[Program, list[int] | None]:
    """Return the program for all sizes, and which of its inputs remain.

    Raises: NotForAllSizes if a part of it cannot be compiled for the host.
    """
    program, kept = program_of(jaxpr, name, *wanted)
    program = dataclasses.replace(program, sizes=(*sizes,))
    why_not = engine(HOST_COMPILER).compiler.unsupported(program)
    if why_not is not None:
        raise NotForAllSizes(why_not)
    return program, kept


class ProgramForSizes(Variant):
    """A program with named axes, for given sizes."""

    __slots__ = ("_general", "_sizes")

    def __init__(
        self,
        base: CachedProgram,
        general: Jaxpr,
        sizes: tuple[int, ...],
        out_avals: Sequence[ShapedArray],
    ) -> None:
        super().__init__(base, out_avals)
        self._general = general
        self._sizes = sizes

    def for_other_sizes(self, sizes: tuple[int, ...]) -> ProgramForSizes | None:
        """Return the program for other sizes from 1 on; None if arrays would be too large."""
        env = dict(zip(self.program.sizes, sizes, strict=True))
        try:
            made = ProgramForSizes(self._base, self._general, sizes, out_types(self._general, env))
            made._call = made.executable
        except ValueError:
            return None
        return made

    def _found(self) -> Executable:
        self._base.used = CLOCK.now
        self._call = found = self.executable
        return found

    @property
    def executable(self) -> Executable:
        """The executable for these sizes.

        Raises: NotForAllSizes if an array would be too large.
        """
        executable: Any = self._base.executable
        found: Executable | None = executable.for_sizes(self._sizes)
        if found is None:
            raise NotForAllSizes("array is too big")
        return found

    def load(self) -> Executable:
        """Compile the program, unless its executable is in memory."""
        self._base.load()
        return self.executable
