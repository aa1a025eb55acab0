"""From a program to native code: lower it to loops, improve them, write LLVM, assemble."""

from __future__ import annotations

from typing import Any, NoReturn

from kiln.base.config import options
from kiln.base.errors import three_lines
from kiln.core.engine import Program
from kiln.engines.native.analysis import costs
from kiln.engines.native.builder import Unsupported, function_of
from kiln.engines.native.checks import OPTION, kinds_of
from kiln.engines.native.executable import NativeExecutable
from kiln.engines.native.llvm.assembly import assemble, host_target
from kiln.engines.native.llvm.functions import module_text
from kiln.engines.native.loop_ir import Function
from kiln.engines.native.lowerings import LOWERINGS
from kiln.engines.native.passes.expansion import missing
from kiln.engines.native.passes.pipeline import optimized
from kiln.engines.native.passes.workspace import workspace
from kiln.engines.native.profiling import Profile

_LOOPS = "loops of the native engine"


class NativeCompiler:
    """Compiles programs for the host."""

    places_programs = False
    dialects = ("loops", "llvm", "asm", "html")

    def unsupported(self, program: Program) -> str | None:
        """Return which part of a program this engine does not compile; None if it compiles all."""
        for name, _ in program.compiler_options:
            if name != OPTION:
                return f"No such compile option: {name!r}: the native engine has {OPTION!r} only"
        memo, key = program.jaxpr.memo, _key(program)
        if key not in memo:
            try:
                memo[key] = _lowered(program)
            except Unsupported as reason:
                memo[key] = str(reason)
        found = memo[key]
        return found if isinstance(found, str) else None

    def loops(self, program: Program) -> Function:
        """Return a program as loops, improved.

        Raises: Unsupported if a part of it cannot be compiled.
        """
        # Made by `unsupported`, if that was asked last; passes change it, so it is used once.
        found = program.jaxpr.memo.pop(_key(program), None)
        if not isinstance(found, Function):
            found = _lowered(program)
        return optimized(found, checked=options().check)

    def compile(self, program: Program) -> NativeExecutable:
        """Return the program ready to run.

        Raises: ValueError if a part of it cannot be compiled.
        """
        if any(name != OPTION for name, _ in program.compiler_options):
            raise _refused(program, str(self.unsupported(program)))
        try:
            function = self.loops(program)
        except Unsupported as reason:
            raise _refused(program, str(reason)) from None
        offsets, size = workspace(function)
        profile = Profile(function) if options().profile else None
        measurements = profile.measurements if profile is not None else None
        text = module_text(function, offsets, host_target(), measurements)
        return NativeExecutable(program, function, text, assemble(text), offsets, size, profile)

    def text(self, program: Program, dialect: str | None = None, *, locations: bool = False) -> str:
        """Return the program as loops, LLVM, assembly, or a picture.

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

    def cost(self, program: Program) -> dict[str, float]:
        """Return the `flops` and `bytes accessed` of a call; a `while` loop counts as one turn."""
        return costs(self.loops(program))

    def described_devices(self, platform: str, topology: str = "") -> NoReturn:
        """Raise ValueError: code is generated for this machine only."""
        raise ValueError(
            three_lines(
                f"the topology {topology!r} of platform {platform} on the native engine",
                "the native engine compiles for this machine's processor",
                "use the xla engine",
            )
        )


def _key(program: Program) -> tuple[str, frozenset[str]]:
    return _LOOPS, kinds_of(program.compiler_options)


def _lowered(program: Program) -> Function:
    checks = kinds_of(program.compiler_options)
    function = function_of(program.jaxpr, program.name, LOWERINGS, checks)
    name = missing(function.scope)
    if name is not None:
        raise Unsupported(f"the function {name} is not compiled for the host")
    return function


def _refused(program: Program, reason: str) -> ValueError:
    return ValueError(
        three_lines(
            f"compiling {program.name} with the native engine",
            reason,
            "leave check out: such programs run on the xla engine, which has no checks"
            if program.compiler_options
            else "leave KILN_ENGINE unset: such programs run on the xla engine",
        )
    )
