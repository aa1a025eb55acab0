"""User code in programs: callbacks, rules of custom derivatives, with their closures.

Two decisions depend on it: whether a program may be cached for others, or must die with the
function it was recorded from; and whether it is determined by the content of that function alone.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from kiln.base.source import is_internal
from kiln.ir.jaxpr import ClosedJaxpr, Jaxpr


def is_shareable(jaxpr: Jaxpr) -> bool:
    """Tell whether a program holds nothing that should die with its first user."""
    found = _held(jaxpr)
    return not found.closes_over_values and all(
        _outlives(f) or _is_kilns(f) for f in found.functions
    )


def holds_user_code(jaxpr: Jaxpr) -> bool:
    """Tell whether a program runs a user function, now or when it is transformed."""
    return not all(map(_is_kilns, _held(jaxpr).functions))


class _Held:
    """The functions that a program holds, and whether an inner program has constants."""

    __slots__ = ("closes_over_values", "functions")

    def __init__(self) -> None:
        self.functions: list[Callable[..., Any]] = []
        self.closes_over_values = False


def _held(jaxpr: Jaxpr) -> _Held:
    found: _Held | None = jaxpr.memo.get(_held)
    if found is None:
        found = jaxpr.memo[_held] = _Held()
        for eqn in jaxpr.eqns:
            for part in _parts(eqn.params.values()):
                if isinstance(part, Jaxpr):
                    inner = _held(part)
                    found.functions += inner.functions
                    found.closes_over_values |= inner.closes_over_values
                elif isinstance(part, ClosedJaxpr):
                    found.closes_over_values |= bool(part.consts)
                else:
                    found.functions.append(part)
    return found


_PLAIN = frozenset([int, float, bool, str, types.NoneType, np.dtype, type])


def _parts(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the programs and functions in parameters; a closed program before its jaxpr."""
    for value in values:
        # Nearly all parameters are of these classes.
        if type(value) in _PLAIN:
            continue
        if isinstance(value, Jaxpr):
            yield value
        elif isinstance(value, ClosedJaxpr):
            yield value
            yield value.jaxpr
        elif isinstance(value, (tuple, list)):
            yield from _parts(value)
        elif callable(value) and not isinstance(value, type):
            if dataclasses.is_dataclass(value):
                yield from _parts([getattr(value, f.name) for f in dataclasses.fields(value)])
            else:
                yield value


def _outlives(f: Any) -> bool:
    """Tell whether a function lives as long as its module, and keeps nothing alive."""
    return (
        isinstance(f, types.FunctionType)
        and f.__closure__ is None
        and "<locals>" not in f.__qualname__
    )


def _is_kilns(f: Any, seen: frozenset[int] = frozenset()) -> bool:
    """Tell whether a function is kiln's, and closes over only numbers and kiln's functions."""
    if id(f) in seen:
        return True
    seen |= {id(f)}
    if isinstance(f, types.FunctionType):
        if not is_internal(f.__code__.co_filename):
            return False
        parts = [cell.cell_contents for cell in f.__closure__ or ()]
    else:
        # A function with custom rules: the function and its rules.
        if not hasattr(f, "__wrapped__"):
            return False
        parts = [f.__wrapped__, *[getattr(f, rule, None) for rule in ("jvp", "fwd", "bwd")]]
    return all(
        x is None or isinstance(x, (bool, int, float, str, type)) or _is_kilns(x, seen)
        for x in parts
    )
