"""A traced function as one self-contained program: its constants are inside.

Its inputs are the leaves of `(args, kwargs)` as the call was written, where a compiled program
takes closed-over arrays first and arguments by position.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.records import Record
from kiln.core.arrays.array import ConcreteArray, host_value
from kiln.core.engines.engine import Program
from kiln.execution.placement import Placer
from kiln.execution.programs import program_of
from kiln.ir.jaxpr import Atom, Jaxpr, Literal, Var
from kiln.ir.shardings.sharding import Sharding
from kiln.ir.sizes.size import names


class WholeProgram(Record):
    """A program, and which leaves of the arguments it takes: the others are unused."""

    program: Program
    kept: tuple[int, ...]


class DividedProgram(Record):
    """A program whose first inputs are closed-over arrays, with these given.

    `arguments` says which leaves of the arguments, as they are bound by position, the others are.
    """

    program: Program
    constants: tuple[np.ndarray, ...]
    arguments: tuple[int, ...]


def whole_program(
    placer: Placer,
    consts: Sequence[Any],
    order: Sequence[int],
    places: Sequence[Sharding | None],
) -> WholeProgram:
    """Return the program of a placer for its inputs in another order, and without constants."""
    hidden = len(consts)
    at = [hidden + i for i in order]
    jaxpr = with_constants(placer.jaxpr, consts)
    given = jaxpr.invars
    arg_names = placer.jaxpr.arg_names
    jaxpr = jaxpr.with_(
        invars=[given[i - hidden] for i in at],
        arg_names=[arg_names[i] for i in at] if arg_names else (),
    )
    placement = placer.place(places)
    if placement is not None and placement.in_shardings:
        in_shardings = tuple([placement.in_shardings[i] for i in at])
        placement = dataclasses.replace(placement, in_shardings=in_shardings)
    donated = tuple([n for n, i in enumerate(at) if i in placer.request.donated])
    sizes = tuple(sorted({name for v in jaxpr.invars for name in names(*v.aval.shape)}))
    # Named sizes are determined by the types of all arguments, used or not.
    keep = placer.keep_unused or bool(sizes)
    program, kept = program_of(jaxpr, placer.name, keep, (), donated, placement)
    program = dataclasses.replace(program, sizes=sizes)
    return WholeProgram(program, tuple(range(len(at)) if kept is None else kept))


def divided_program(placer: Placer, consts: Sequence[Any]) -> DividedProgram:
    """Return the program that a call compiles: closed-over arrays are its first inputs.

    Names of sizes that the types hold are sizes that each call supplies.
    """
    general = placer.general if placer.sizes else None
    jaxpr = placer.jaxpr if general is None else general
    found = tuple(sorted({name for v in jaxpr.invars for name in names(*v.aval.shape)}))
    program, kept = program_of(
        jaxpr,
        placer.name,
        placer.keep_unused or bool(found),
        placer.compiler_options,
        placer.request.donated,
        placer.place((None,) * len(jaxpr.invars)),
        0 if found else placer.constants,
    )
    inputs = tuple(range(len(jaxpr.invars)) if kept is None else kept)
    hidden = len(consts)
    values = tuple([np.asarray(_on_host(consts[i])) for i in inputs if i < hidden])
    arguments = tuple([i - hidden for i in inputs if i >= hidden])
    return DividedProgram(dataclasses.replace(program, sizes=found), values, arguments)


def _on_host(value: Any) -> Any:
    return host_value(value) if isinstance(value, ConcreteArray) else value


def with_constants(jaxpr: Jaxpr, values: Sequence[Any]) -> Jaxpr:
    """Return a program whose first inputs are replaced by their values."""
    if not values:
        return jaxpr
    known: dict[Var, Literal] = {}
    for var, value in zip(jaxpr.invars, values, strict=False):
        on_host = host_value(value) if isinstance(value, ConcreteArray) else value
        known[var] = Literal(on_host, var.aval)

    def read(atoms: Sequence[Atom]) -> list[Atom]:
        return [known.get(x, x) if isinstance(x, Var) else x for x in atoms]

    eqns = [eqn.with_(invars=read(eqn.invars)) for eqn in jaxpr.eqns]
    rest = jaxpr.invars[len(values) :]
    arg_names = jaxpr.arg_names[len(values) :]
    return jaxpr.with_(invars=rest, eqns=eqns, outvars=read(jaxpr.outvars), arg_names=arg_names)
