"""From a program to native code: lower it to loops, optimize them, generate LLVM IR, assemble."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from kiln.base.errors import InconclusiveSizeError, three_lines
from kiln.base.options.config import options
from kiln.core.arrays.host_memory import HOST_MEMORY
from kiln.core.engines.engine import NotForAllSizes, Program, load_module
from kiln.core.engines.linking import LinkedCode, LinkedFunction, Unlinkable
from kiln.engines.native.building.builder import function_of
from kiln.engines.native.building.element_types import Unsupported
from kiln.engines.native.executables.executable import NativeCode, NativeExecutable, Written
from kiln.engines.native.executables.over_constants import OverConstants, prologue_of
from kiln.engines.native.executables.value_types import ValueType, known, value_type
from kiln.engines.native.llvm.assembly import host_target
from kiln.engines.native.llvm.functions import module_text
from kiln.engines.native.llvm.target import (
    COMPILERS_NAMES,
    DISPATCHED,
    FOR_LIBRARIES,
    LEVELS,
    Target,
    named,
)
from kiln.engines.native.llvm.writer import Sizes
from kiln.engines.native.loop_ir.checks import kinds_of
from kiln.engines.native.loop_ir.costs import costs
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES
from kiln.engines.native.loop_ir.statements import Function
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.lowerings import LOWERINGS
from kiln.engines.native.passes.expansion import missing
from kiln.engines.native.passes.pipeline import optimized
from kiln.engines.native.passes.products.constants import divided
from kiln.engines.native.passes.workspace import workspace
from kiln.ir.sizes.size import Size

if TYPE_CHECKING:
    from kiln.engines.native.executables.sized import SizedExecutable

_PORTABLE = "kiln.engines.native.executables.portable"
"""Loaded when programs become bytes, or are looked up by their digests."""
_PROFILING = "kiln.engines.native.reports.profiling"
"""Loaded for instrumented programs."""
_LINKING = "kiln.engines.native.library.linking"
"""Loaded when programs become libraries."""
_MODULES = "kiln.engines.native.library.wasm"
"""Loaded when they become WebAssembly modules."""
_SIZED = "kiln.engines.native.executables.sized"
"""Loaded for programs with named axes."""
_LOOPS = "loops of the native engine"


class NativeCompiler:
    """Compiles programs for the host CPU."""

    places_programs = False
    dialects = ("loops", "llvm", "asm", "html")

    def unsupported(self, program: Program) -> str | None:
        """Return which part of a program this engine does not compile; None if it compiles all."""
        if program.engine_options:
            name = program.engine_options[0][0]
            return f"No such compile option: {name!r}: the native engine has no options"
        memo, key = program.jaxpr.memo, _key(program)
        if key not in memo:
            try:
                memo[key] = _lowered(program)
            except (Unsupported, InconclusiveSizeError) as reason:
                memo[key] = _line(reason)
        found = memo[key]
        return found if isinstance(found, str) else None

    def loops(self, program: Program) -> Function:
        """Return a program as optimized loops.

        Raises: Unsupported if a part of it cannot be compiled.
        """
        # Built by `unsupported`, if that was called last; passes modify it, so it is used only
        # once.
        found = program.jaxpr.memo.pop(_key(program), None)
        if not isinstance(found, Function):
            found = _lowered(program)
        return optimized(found, checked=options().check)

    def compile(self, program: Program) -> NativeExecutable | SizedExecutable | OverConstants:
        """Return the executable of a program; with named axes, for all sizes.

        Raises: ValueError if a part of it cannot be compiled.
        """
        if program.engine_options:
            raise _refused(program, str(self.unsupported(program)))
        measures = options().profile
        written = self._written(program, measures=measures)
        source = functools.partial(self._written, program, measures=measures)
        code = NativeCode(program, written, source)
        operands = [value_type(v.aval) for v in program.jaxpr.invars]
        results = [value_type(v.aval) for v in program.jaxpr.outvars]
        callbacks = written.function.callbacks
        if program.sizes:
            sized: SizedExecutable = load_module(_SIZED).SizedExecutable(
                code, operands, results, written.workspace, written.sizes.numbers, callbacks
            )
            return sized
        room = int(written.workspace)
        made = known(operands)
        before = written.prologue
        if before is None:
            return NativeExecutable(code, made, known(results), room, callbacks)
        kept = [(NUMPY_TYPES[b.dtype], int(b.nbytes)) for b in before.function.outputs]
        main = NativeExecutable(code, [*made, *kept], known(results), room)
        own = NativeCode(prologue_of(program), before, functools.partial(self._prologue, program))
        given = made[: program.constants]
        prologue = NativeExecutable(own, given, kept, int(before.workspace))
        return OverConstants(main, prologue, program.constants)

    def _prologue(self, program: Program) -> Written:
        """Return the prologue of a program that has one."""
        found = self._written(program, measures=False).prologue
        assert found is not None
        return found

    def _written(
        self, program: Program, *, measures: bool, target: Target | None = None
    ) -> Written:
        """Return a program as loops and as LLVM IR, by default for the host.

        Raises: ValueError if a part of it cannot be compiled.
        """
        sizes, host = Sizes(), host_target()
        target = target or host
        try:
            function = self.loops(program)
            is_divisible = not (measures or function.callbacks or function.sites or program.sizes)
            # The prologue runs here: what it packs is laid out for this processor.
            is_divisible = is_divisible and target is host
            before: Written | None = None
            if program.constants and is_divisible:
                before = _divided(function, program.constants)
            offsets, room = workspace(function)
            profile = (
                load_module(_PROFILING).Profile(function, program.sizes, program.jaxpr)
                if measures
                else None
            )
            measurements = profile.measurements if profile is not None else None
            text = module_text(function, offsets, target, sizes, measurements)
            if profile is not None:
                profile.llvm = text
        except (Unsupported, InconclusiveSizeError) as reason:
            refused = NotForAllSizes(_line(reason)) if program.sizes else None
            raise refused or _refused(program, str(reason)) from None
        return Written(function, text, offsets, room, sizes, profile, before)

    def target_names(self) -> tuple[str, ...]:
        """Return the host's microarchitecture level, the others, and what has several."""
        host = host_target().name
        others = [name for name in LEVELS if name != host]
        return (host, *others, *FOR_LIBRARIES, *DISPATCHED)

    def cross_triple(self, target: str | None) -> str | None:
        """Return the name that compilers have for a target; None: the host's architecture."""
        if target is None or target in DISPATCHED:
            return None
        level, host = named(target), host_target()
        if (level.triple, level.system) == (host.triple, host.system):
            return None
        return f"{level.triple}-{COMPILERS_NAMES[level.system]}"

    def link(
        self,
        prefix: str,
        functions: Sequence[LinkedFunction],
        *,
        target: str | None = None,
        blas: bool = False,
        threads: bool = False,
        mapped: bool = False,
    ) -> LinkedCode:
        """Return functions as a static library for a level, by default the host's, or for several.

        Raises: Unlinkable for programs that call Python, or need what `blas` provides.
        """
        linking = load_module(_LINKING)
        options = linking.Options(blas=blas, threads=threads, mapped=mapped)
        levels = DISPATCHED.get(target or "")
        if blas and self.cross_triple(target) is not None:
            raise Unlinkable(
                f"blas=True links this machine's OpenBLAS, which is not for {target}",
                "leave blas out",
            )
        code: LinkedCode
        if levels is None:
            level = host_target() if target is None else named(target)
            ready = [self._ready(function, level) for function in functions]
            link = load_module(_MODULES).linked_module if level.is_module else linking.linked
            code = link(prefix, ready, level, options)
            return code
        by_level = {
            level: [self._ready(f, level, is_divisible=False) for f in functions]
            for level in map(named, levels)
        }
        code = linking.dispatched(prefix, by_level, target, options)
        return code

    def _ready(
        self, function: LinkedFunction, level: Target, *, is_divisible: bool = True
    ) -> LinkedFunction:
        """Return a function with its code, and with what its prologue computes of its constants."""
        linking = load_module(_LINKING)
        program = function.program
        reason = self.unsupported(program)
        if reason is not None:
            raise Unlinkable(
                f"the native engine does not compile it: {reason}",
                "leave out what only XLA runs",
            )
        if not is_divisible:
            program = dataclasses.replace(program, constants=0)
        written = self._written(program, measures=False, target=level)
        kept: list[Any] = []
        if written.prologue is not None:
            made = self.compile(program)
            assert isinstance(made, OverConstants)
            blocks = made.prologue([HOST_MEMORY.put(x) for x in function.constants])
            types = made.prologue.results
            kept = [np.frombuffer(b, t) for b, (t, _) in zip(blocks, types, strict=True)]
        ready: LinkedFunction = linking.ready(function, written, kept)
        return ready

    def digest(self, program: Program) -> str | None:
        """Return a hash of the loops, the compilation options, this build of kiln and the target.

        None for programs that call Python, are instrumented, or are not compiled for the host CPU.
        """
        if options().profile or self.unsupported(program) is not None:
            return None
        found: str | None = load_module(_PORTABLE).digest(
            program, program.jaxpr.memo[_key(program)]
        )
        return found

    def serialize(self, executable: NativeExecutable | SizedExecutable) -> bytes:
        """Return an executable as bytes, for this build of kiln and this microarchitecture level.

        Raises: ValueError for programs that call Python or are instrumented.
        """
        stored: bytes = load_module(_PORTABLE).to_bytes(executable)
        return stored

    def load(self, program: Program, stored: bytes) -> NativeExecutable | SizedExecutable:
        """Return the executable of a program from the bytes that `serialize` returned.

        Raises: JaxRuntimeError for other bytes, or those of another program, build or level.
        """
        source = functools.partial(self._written, program, measures=False)
        made: NativeExecutable | SizedExecutable = load_module(_PORTABLE).from_bytes(
            program, stored, source
        )
        return made

    def stored_code(
        self, program: Program, about: dict[str, Any], image: bytes, *, is_prologue: bool = False
    ) -> NativeCode:
        """Return stored code, with all metadata of its program."""
        source = functools.partial(self._written, program, measures=False)
        if is_prologue:
            source = functools.partial(self._prologue, program)
        code: NativeCode = load_module(_PORTABLE).StoredCode(program, about, image, source)
        return code

    def executable_of(
        self,
        code: NativeCode,
        operands: Sequence[ValueType],
        results: Sequence[ValueType],
        workspace: int,
    ) -> NativeExecutable:
        """Return an executable with all metadata of the program."""
        return NativeExecutable(code, operands, results, workspace)

    def text(self, program: Program, dialect: str | None = None, *, locations: bool = False) -> str:
        """Return the program as loops, LLVM IR, assembly, or a picture.

        Raises: ValueError for another dialect, or if a part of the program cannot be compiled.
        """
        if dialect not in (None, *self.dialects):
            raise ValueError(
                three_lines(
                    f"the program {program.name} as {dialect!r} on the native engine",
                    f"unknown dialect: {dialect!r}",
                    "use 'loops', 'llvm', 'asm', 'html' or 'jaxpr'; with the xla engine "
                    "'stablehlo' or 'hlo'",
                )
            )
        return self.compile(program).as_text(dialect or "loops")

    def compiler_ir(self, program: Program, dialect: str | None = None) -> Any:
        """Return the loops.

        Raises: ValueError for any dialect.
        """
        if dialect is not None:
            self.text(program, dialect)
        return self.loops(program)

    def cost(self, program: Program) -> dict[str, float | Size]:
        """Return the `flops` and `bytes accessed` of a call; a `while` loop counts once.

        For a program for all sizes of named axes they are symbolic sizes.
        """
        return costs(self.loops(program))

    def described_devices(self, platform: str, topology: str = "") -> NoReturn:
        """Raise ValueError: code is generated only for this machine."""
        raise ValueError(
            three_lines(
                f"the topology {topology!r} of platform {platform} on the native engine",
                "the native engine compiles for this machine's processor",
                "use the xla engine",
            )
        )


def _key(program: Program) -> tuple[str, frozenset[str], bool]:
    return _LOOPS, kinds_of(program), program.is_batch_invariant


def _divided(function: Function, constants: int) -> Written | None:
    """Move what depends on constants alone to a prologue, and return it."""
    prologue = divided(function, constants)
    if prologue is None:
        return None
    if options().check:
        check(prologue, "constants")
        check(function, "constants")
    offsets, room = workspace(prologue)
    sizes = Sizes()
    text = module_text(prologue, offsets, host_target(), sizes)
    return Written(prologue, text, offsets, room, sizes, None)


def _lowered(program: Program) -> Function:
    function = function_of(
        program.jaxpr,
        program.name,
        LOWERINGS,
        kinds_of(program),
        is_batch_invariant=program.is_batch_invariant,
    )
    name = missing(function.scope)
    if name is not None:
        raise Unsupported(f"the function {name} is not compiled for the host")
    return function


def _line(reason: Exception) -> str:
    """Return the second line of an error, which says what is wrong, or its only line."""
    lines = str(reason).splitlines()
    return lines[1] if len(lines) > 1 else str(reason)


def _refused(program: Program, reason: str) -> ValueError:
    return ValueError(
        three_lines(
            f"compiling {program.name} with the native engine",
            reason,
            "leave check out: such programs run on the xla engine, which has no checks"
            if program.checks
            else "leave KILN_ENGINE unset: such programs run on the xla engine",
        )
    )
