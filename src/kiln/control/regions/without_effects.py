"""Removing the effects of a program that is computed a second time."""

from __future__ import annotations

from typing import Any

from kiln.control.regions.region import memoized
from kiln.ir.effects import must_keep
from kiln.ir.jaxpr import Eqn, Jaxpr


def without_effects(jaxpr: Jaxpr) -> Jaxpr:
    """Drop equations that only have effects, also in inner programs.

    An equation whose results are used is kept, since they are needed.
    """
    if not must_keep(jaxpr.effects):
        return jaxpr
    return memoized(jaxpr, "without effects", lambda: _without_effects(jaxpr))


def _without_effects(jaxpr: Jaxpr) -> Jaxpr:
    kept = [_quiet(eqn) for eqn in jaxpr.eqns if not _only_effects(eqn)]
    return jaxpr.with_(eqns=kept)


def _only_effects(eqn: Eqn) -> bool:
    return must_keep(eqn.effects) and not eqn.outvars and not eqn.primitive.region


def _quiet(eqn: Eqn) -> Eqn:
    if not (eqn.primitive.region and must_keep(eqn.effects)):
        return eqn
    params = {name: _quiet_param(value) for name, value in eqn.params.items()}
    return eqn.with_(params=params, effects=eqn.primitive.effects(params))


def _quiet_param(value: Any) -> Any:
    if isinstance(value, Jaxpr):
        return without_effects(value)
    if isinstance(value, tuple) and value and all(isinstance(v, Jaxpr) for v in value):
        return tuple(map(without_effects, value))
    return value
