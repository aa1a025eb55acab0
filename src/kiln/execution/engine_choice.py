"""The choice of the engine that runs a program, with its reason: made here and nowhere else."""

from __future__ import annotations

import functools
from typing import NamedTuple

from kiln.base.config import Options
from kiln.core.engine import DEFAULT_ENGINE, Engine, Placement, engine
from kiln.ir.jaxpr import Jaxpr

HOST_ENGINE = "reference"
"""What runs eager operations that are cheaper to interpret than to compile."""


class Choice(NamedTuple):
    """The engine of a program, and the reason for it."""

    engine: Engine
    reason: str


def engine_for(
    jaxpr: Jaxpr, placement: Placement | None, options: Options, *, is_eager: bool = False
) -> Choice:
    """Return the engine that runs a program.

    With `is_eager` the program is a single operation, which need not be compiled: a new shape would
    cost a compilation.

    Raises: ValueError if the option `engine` names an unknown engine.
    """
    if options.engine:
        return _choice(options.engine, "the option engine names it")
    if is_eager and placement is None and _runs_on_host(jaxpr):
        return _choice(HOST_ENGINE, "the operation runs on the host, uncompiled")
    return _choice(DEFAULT_ENGINE, "the default")


@functools.lru_cache(maxsize=16)
def _choice(name: str, reason: str) -> Choice:
    return Choice(engine(name), reason)


def _runs_on_host(jaxpr: Jaxpr) -> bool:
    return all(eqn.primitive.runs_on_host([v.aval for v in eqn.invars]) for eqn in jaxpr.eqns)
