"""The memory of a program, estimated from its number of equations."""

from __future__ import annotations

from typing import Any

from kiln.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr

BASE_BYTES = 3072
EQUATION_BYTES = 1280
"""Bytes of an equation with its variables, types, parameters, source, and share of the key."""


def footprint(jaxpr: Jaxpr) -> int:
    """Return roughly the bytes that a jaxpr holds, without programs derived from it."""
    found: int | None = jaxpr.memo.get(footprint)
    if found is None:
        found = jaxpr.memo[footprint] = BASE_BYTES + sum(map(_of_equation, jaxpr.eqns))
    return found


def _of_equation(eqn: Eqn) -> int:
    return EQUATION_BYTES + sum(map(_of_parameter, eqn.params.values()))


def _of_parameter(value: Any) -> int:
    if isinstance(value, Jaxpr):
        return footprint(value)
    if isinstance(value, ClosedJaxpr):
        return footprint(value.jaxpr)
    if isinstance(value, tuple):
        # Mostly axis numbers.
        return sum([_of_parameter(x) for x in value if type(x) is not int])
    return 0
