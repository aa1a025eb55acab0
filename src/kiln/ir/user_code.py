"""Functions of the user's that programs hold: callbacks, rules of custom derivatives."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator
from typing import Any

from kiln.base.source import is_internal
from kiln.ir.jaxpr import Jaxpr


def holds_user_code(jaxpr: Jaxpr) -> bool:
    """Tell whether a program runs a function of the user's, now or when it is transformed."""
    return any(not _is_kilns(f) for f in _functions(jaxpr))


def _functions(jaxpr: Jaxpr) -> list[Callable[..., Any]]:
    found = jaxpr.memo.get(_functions)
    if found is None:
        found = jaxpr.memo[_functions] = [
            f
            for eqn in jaxpr.eqns
            if eqn.params
            for value in eqn.params.values()
            for f in _callables(value)
        ]
    return found


def _callables(value: Any) -> Iterator[Callable[..., Any]]:
    if isinstance(value, Jaxpr):
        yield from _functions(value)
    elif isinstance(value, (tuple, list)):
        for x in value:
            yield from _callables(x)
    elif callable(value) and not isinstance(value, type):
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                yield from _callables(getattr(value, field.name))
        else:
            yield value


def _is_kilns(f: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Tell whether a function is kiln's, and closes over numbers and kiln's functions alone."""
    if id(f) in seen:
        return True
    seen |= {id(f)}
    if isinstance(f, types.FunctionType):
        if not is_internal(f.__code__.co_filename):
            return False
        parts = [cell.cell_contents for cell in f.__closure__ or ()]
    else:
        # A function with rules of its own: the function and its rules.
        if not hasattr(f, "__wrapped__"):
            return False
        parts = [f.__wrapped__, *[getattr(f, rule, None) for rule in ("jvp", "fwd", "bwd")]]
    return all(
        x is None or isinstance(x, (bool, int, float, str, type)) or _is_kilns(x, seen)
        for x in parts
    )
