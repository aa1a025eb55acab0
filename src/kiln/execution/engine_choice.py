"""The choice of the engine that runs a program, with its reason: made here and nowhere else."""

from __future__ import annotations

from typing import NamedTuple

from kiln.base.config import Options
from kiln.core.engine import DEFAULT_ENGINE, Compiler, Engine, Placement, Program, engine
from kiln.execution import fallbacks
from kiln.ir.jaxpr import Jaxpr

HOST_ENGINE = "reference"
"""What runs eager operations that are cheaper to interpret than to compile."""

_DEFAULT = "the default"
CHECKS = "check"
"""The compiler option of `jit(f, check=...)`, which only the host's compiler has."""
HOST_COMPILER = "native"
"""What compiles programs for the first CPU device, if it can compile all of them."""


class Choice(NamedTuple):
    """The name of a program's engine, and the reason for it."""

    name: str
    reason: str

    @property
    def engine(self) -> Engine:
        """The engine, loaded on first use."""
        return engine(self.name)


def engine_for(
    jaxpr: Jaxpr, placement: Placement | None, options: Options, *, is_eager: bool = False
) -> Choice:
    """Return the engine that runs a program.

    With `is_eager` the program is a single operation, which need not be compiled: a new shape would
    cost a compilation.

    Raises: ValueError if the option `engine` names an unknown engine.
    """
    if options.engine:
        engine(options.engine)
        return Choice(options.engine, "the option engine names it")
    if is_eager and placement is None and _runs_on_host(jaxpr):
        return Choice(HOST_ENGINE, "the operation runs on the host, uncompiled")
    return Choice(DEFAULT_ENGINE, _DEFAULT)


def compiling(choice: Choice, program: Program) -> Choice:
    """Return the engine that compiles a program whose place was chosen.

    A program that no option and no argument places anywhere is compiled for the host, if all of it
    can be; the reason says what kept it from there.
    """
    if choice.reason != _DEFAULT or program.placement is not None:
        return choice
    has_checks = any(name == CHECKS for name, _ in program.compiler_options)
    if program.compiler_options and not has_checks:
        return Choice(choice.name, "the default: it has compiler_options of XLA")
    host = engine(HOST_COMPILER)
    why_not = host.compiler.unsupported(program)
    if why_not is None or has_checks:
        # Whoever asks for checks is told why there are none.
        return Choice(HOST_COMPILER, "all of it is compiled for the host")
    fallbacks.note(program.name, why_not)
    return Choice(choice.name, f"not compiled for the host: {why_not}")


def compiler_of(dialect: str | None, preferred: Compiler) -> Compiler:
    """Return the compiler that writes programs in a dialect, the preferred one if it does."""
    if dialect is None or dialect in preferred.dialects:
        return preferred
    host = engine(HOST_COMPILER).compiler
    return host if dialect in host.dialects else preferred


def _runs_on_host(jaxpr: Jaxpr) -> bool:
    return all(eqn.primitive.runs_on_host([v.aval for v in eqn.invars]) for eqn in jaxpr.eqns)
