"""The choice of the engine that runs a program, with its reason: made here and nowhere else."""

from __future__ import annotations

import warnings

from kiln.base.errors import SlowProgramWarning, three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import Options
from kiln.base.source import current_source
from kiln.core.engines.engine import (
    DEFAULT_ENGINE,
    HOST_COMPILER,
    Compiler,
    Engine,
    Placement,
    Program,
    default_engine,
    engine,
)
from kiln.core.engines.installed import INSTALL_XLA, is_installed, require_installed
from kiln.execution import fallbacks
from kiln.ir.jaxpr import Jaxpr

HOST_ENGINE = "reference"
"""The engine of eager operations that are cheaper to interpret than to compile, and of programs
that no installed engine compiles."""

_DEFAULT = "the default"
_OF_XLA = ("stablehlo", "hlo")
_ALONE = "jaxlib is not installed"


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
    may_interpret = is_eager and placement is None and not options.batch_invariant
    if may_interpret and _runs_on_host(jaxpr):
        return Choice(HOST_ENGINE, "the operation runs on the host, uncompiled")
    if not is_installed(DEFAULT_ENGINE):
        return Choice(HOST_COMPILER, _ALONE)
    return Choice(DEFAULT_ENGINE, _DEFAULT)


def compiling(choice: Choice, program: Program) -> Choice:
    """Return the engine that compiles a program whose placement is decided.

    A program for the first CPU device, by default or because something placed it there, is compiled
    for the host, if all of it can be; otherwise the reason says what prevents it.

    Raises: ValueError for a number of threads on the XLA engine, whose programs share theirs, and
        for checks, or the option `batch_invariant`, on any engine but the host's compiler.
    """
    if choice.reason == _DEFAULT and _is_for_host(program.placement):
        choice = _for_host(choice, program)
    elif choice.reason == _ALONE:
        choice = _without_xla(choice, program)
    if program.checks and choice.name != HOST_COMPILER:
        raise ValueError(
            three_lines(
                f"compiling {program.name} with check={program.checks!r}",
                f"it runs on the {choice.name} engine, which has no checks ({choice.reason})",
                "leave check out, or change the program so that it is compiled for the host",
            )
        )
    if program.is_batch_invariant and choice.name != HOST_COMPILER:
        raise ValueError(
            three_lines(
                f"compiling {program.name} with the option batch_invariant",
                f"it runs on the {choice.name} engine, where bits may depend on how many rows "
                f"there are ({choice.reason})",
                "set batch_invariant to False for it, or change the program so that it is compiled "
                "for the host",
            )
        )
    if program.threads and choice.name == DEFAULT_ENGINE:
        raise ValueError(
            three_lines(
                f"compiling {program.name} with threads={program.threads}",
                f"it runs on the {choice.name} engine, whose threads all programs share "
                f"({choice.reason})",
                "leave threads out, or change the program so that it is compiled for the host",
            )
        )
    return choice


def may_be_for_host(choice: Choice, program: Program) -> bool:
    """Tell whether a program is compiled for the host if all of it can be."""
    if choice.reason == _DEFAULT:
        return _is_for_host(program.placement)
    return choice.name == HOST_COMPILER


def _for_host(choice: Choice, program: Program) -> Choice:
    if program.engine_options:
        return Choice(choice.name, "the default: it has compiler_options of XLA")
    why_not = engine(HOST_COMPILER).compiler.unsupported(program)
    if why_not is None:
        return Choice(HOST_COMPILER, "all of it is compiled for the host")
    fallbacks.note(program.name, why_not)
    return Choice(choice.name, f"not compiled for the host: {why_not}")


def _without_xla(choice: Choice, program: Program) -> Choice:
    """Return the engine of a program where there is the host alone.

    What is not compiled for it is interpreted, after a warning: loops take long there.

    Raises: MissingEngine for options of XLA.
    """
    if program.engine_options:
        asked = f"compiling {program.name} with compiler_options={dict(program.engine_options)}"
        require_installed(DEFAULT_ENGINE, asked)
    why_not = engine(HOST_COMPILER).compiler.unsupported(program)
    if why_not is None:
        return choice
    fallbacks.note(program.name, why_not)
    warnings.warn(
        three_lines(
            f"{program.name} at {current_source()} is interpreted, operation by operation",
            f"it is not compiled for the host ({why_not}), and {_ALONE}",
            INSTALL_XLA,
        ),
        SlowProgramWarning,
        stacklevel=2,
    )
    return Choice(HOST_ENGINE, f"{_ALONE}, and not compiled for the host: {why_not}")


def compiles_for_all_sizes(choice: Choice) -> bool:
    """Tell whether programs with named axes may be compiled once for all sizes."""
    return choice.name == HOST_COMPILER or choice.reason == _DEFAULT


def _is_for_host(placement: Placement | None) -> bool:
    """Tell whether a placement is the first CPU device of this process, and nothing else."""
    if placement is None:
        return True
    if placement.mesh is not None or placement.in_shardings or len(placement.devices) > 1:
        return False
    (device,) = placement.devices
    first = default_engine().memory.devices()[0]
    return bool(device.platform == "cpu" and device == first)


def compiler_of(dialect: str | None, preferred: Compiler) -> Compiler:
    """Return the compiler that writes programs in a dialect, the preferred one if it does."""
    if dialect is None or dialect in preferred.dialects:
        return preferred
    host = engine(HOST_COMPILER).compiler
    if dialect in host.dialects:
        return host
    if dialect in _OF_XLA:
        require_installed(DEFAULT_ENGINE, f"a program as {dialect}")
    return preferred


def is_host_compiler(compiler: Compiler) -> bool:
    """Tell whether a compiler is the one that compiles for all sizes of named axes."""
    return compiler is engine(HOST_COMPILER).compiler


def _runs_on_host(jaxpr: Jaxpr) -> bool:
    return all(eqn.primitive.runs_on_host([v.aval for v in eqn.invars]) for eqn in jaxpr.eqns)
