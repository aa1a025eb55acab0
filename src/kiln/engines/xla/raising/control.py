"""Calls, loops, branches; and what has no effect in the program of one device."""

from __future__ import annotations

from typing import Any

from kiln.control.branches import cond, switch
from kiln.control.loops.loops import while_loop
from kiln.core.trace import aval_of
from kiln.engines.xla.raising.raiser import Raiser, Raising, number
from kiln.engines.xla.stablehlo.operations import Operation
from kiln.ops.elements.elementwise import ge_p, lt_p, or_p, select_n_p
from kiln.ops.identity import optimization_barrier_p


def _call(r: Raiser, operation: Operation, *xs: Any) -> Any:
    return r.call(operation.attributes["callee"], xs)


def _composite(r: Raiser, operation: Operation, *xs: Any) -> Any:
    """Raise an operation of CHLO, if kiln has it, or else the function that it stands for."""
    name = operation.attributes["name"]
    if not r.has(name):
        return r.call(operation.attributes["decomposition"], xs)
    attributes = operation.attributes.get("composite_attributes", {})
    return r.raised(operation._replace(name=name, attributes=attributes), xs)


def _while(r: Raiser, operation: Operation, *xs: Any) -> Any:
    condition, body = map(r.body, operation.regions)
    return while_loop(lambda carry: condition(*carry)[0], lambda carry: body(*carry), list(xs))


def _if(r: Raiser, operation: Operation, flag: Any) -> Any:
    true, false = map(r.body, operation.regions)
    return cond(flag, true, false)


def _case(r: Raiser, operation: Operation, index: Any) -> Any:
    branches = [r.body(region) for region in operation.regions]
    dtype = aval_of(index).dtype
    first, last = number(0, dtype), number(len(branches) - 1, dtype)
    # An index out of range chooses the last branch.
    outside = or_p.bind(lt_p.bind(index, first), ge_p.bind(index, last))
    return switch(select_n_p.bind(outside, index, last), branches)


def _barrier(r: Raiser, operation: Operation, *xs: Any) -> Any:
    return optimization_barrier_p.bind(*xs)


def _same(r: Raiser, operation: Operation, x: Any) -> Any:
    return x


RAISINGS: dict[str, Raising] = {
    "func.call": _call,
    "stablehlo.composite": _composite,
    "stablehlo.while": _while,
    "stablehlo.if": _if,
    "stablehlo.case": _case,
    "stablehlo.optimization_barrier": _barrier,
    "sdy.sharding_constraint": _same,
}
