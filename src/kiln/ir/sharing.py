"""Which programs may be kept for others: those that hold nothing of the user's.

Callbacks and rules of custom derivatives are functions of the user's, with all they close over. A
program with one of them must die with the function it was recorded from.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Any

from kiln.ir.jaxpr import ClosedJaxpr, Jaxpr


def is_shareable(jaxpr: Jaxpr) -> bool:
    """Tell whether a program holds nothing that ought to die with its first user."""
    found = jaxpr.memo.get(is_shareable)
    if found is None:
        found = jaxpr.memo[is_shareable] = all(
            _is_plain(value) for eqn in jaxpr.eqns if eqn.params for value in eqn.params.values()
        )
    return bool(found)


def _is_plain(value: Any) -> bool:
    if isinstance(value, Jaxpr):
        return is_shareable(value)
    if isinstance(value, ClosedJaxpr):
        return not value.consts and is_shareable(value.jaxpr)
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    if isinstance(value, types.FunctionType):
        return value.__closure__ is None and "<locals>" not in value.__qualname__
    if dataclasses.is_dataclass(value) and callable(value):
        return all(_is_plain(getattr(value, f.name)) for f in dataclasses.fields(value))
    return not callable(value) or isinstance(value, type)
