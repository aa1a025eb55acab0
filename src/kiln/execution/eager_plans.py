"""Eager functions, the first way of docs/eager.md: a call runs a plan and no Python.

`eager` marks a pure function of arrays. On its second call outside of transformations with arrays
of the same types and equal numbers and names, the function is recorded, and the recording becomes a
plan (`engines/native/`) that later calls of this kind run. Nothing is compiled. All other calls run
the function itself.
"""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from kiln import _runtime
from kiln.base.keywords import refuse_unknown_keywords
from kiln.base.options.config import options
from kiln.base.process.memory import MB
from kiln.core.arrays.array import ConcreteArray, host_value
from kiln.core.engines.engine import make_plan
from kiln.core.staging import stage
from kiln.ir.jaxpr import Literal
from kiln.ir.rewrite import eliminate_dead_code

F = TypeVar("F", bound=Callable[..., Any])

MOST_CONSTANT_BYTES = 1 << 14
"""A larger closed-over array is not copied into a plan."""


def eager(fun: F, loop: str | None = None, *, swapped: bool = False) -> F:
    """Return a version of a pure function whose calls outside of transformations run plans.

    Its results depend on nothing but its arguments and the options that are part of cache keys; its
    arguments are arrays, numbers, names, dtypes, and tuples, lists and slices of them.

    `loop` names the loop of `_runtime/loops/arithmetic.cc` that implements the function for
    arrays of one type, or an array and a Python number; with `swapped` its second argument comes
    first.
    """
    return _runtime.EagerFunction(fun, loop, swapped)  # type: ignore[return-value]


def also_named(name: str, fun: F) -> F:
    """Return the same function under another name, also in its pickles."""
    inner: Any = getattr(fun, "__wrapped__", fun)
    same = types.FunctionType(
        inner.__code__, inner.__globals__, name, inner.__defaults__, inner.__closure__
    )
    functools.update_wrapper(same, inner)
    del same.__wrapped__  # type: ignore[attr-defined]
    same.__kwdefaults__ = inner.__kwdefaults__
    same.__name__ = same.__qualname__ = name
    return eager(same) if isinstance(fun, _runtime.EagerFunction) else same  # type: ignore[return-value]


class _NoPlan(Exception):
    """A call that cannot become a plan."""


def _arrays_in(x: Any, found: list[ConcreteArray]) -> None:
    """Collect the arrays of an argument in the order in which the extension visits them."""
    if type(x) is ConcreteArray:
        found.append(x)
    elif type(x) is tuple or type(x) is list:
        for part in x:
            _arrays_in(part, found)
    elif type(x) is slice:
        for part in (x.start, x.stop, x.step):
            _arrays_in(part, found)


def _with(x: Any, tracers: list[Any]) -> Any:
    """Return an argument with its arrays replaced by tracers from the front of the list."""
    if type(x) is ConcreteArray:
        return tracers.pop(0)
    if type(x) is tuple or type(x) is list:
        return type(x)([_with(part, tracers) for part in x])
    if type(x) is slice:
        return slice(_with(x.start, tracers), _with(x.stop, tracers), _with(x.step, tracers))
    return x


def _flat(result: Any) -> list[Any]:
    return list(result) if type(result) is tuple or type(result) is list else [result]


def _recorded(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], arrays: list[Any]
) -> Any:
    def run(*tracers: Any) -> list[Any]:
        left = list(tracers)
        positional = [_with(x, left) for x in args]
        return _flat(fun(*positional, **{name: _with(x, left) for name, x in kwargs.items()}))

    with warnings.catch_warnings():
        # A plan would not repeat the warning.
        warnings.simplefilter("error")
        jaxpr, consts = stage(run, [x.aval for x in arrays], purpose="eager evaluation")
    literals = {}
    for var, value in zip(jaxpr.constvars, consts, strict=True):
        if type(value) is not ConcreteArray or value.nbytes > MOST_CONSTANT_BYTES:
            raise _NoPlan
        literals[id(var)] = Literal(host_value(value), var.aval)
    jaxpr = jaxpr.with_(
        constvars=[],
        eqns=[eqn.with_(invars=[literals.get(id(v), v) for v in eqn.invars]) for eqn in jaxpr.eqns],
        outvars=[literals.get(id(v), v) for v in jaxpr.outvars],
    )
    return eliminate_dead_code(jaxpr)[0]


def plan_of(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> _runtime.Plan | None:
    """Return a plan of the call that returned `result`, or None if there is none."""
    results = _flat(result)
    if not all(type(x) is ConcreteArray for x in results):
        return None
    _runtime.limit_plans(options().eager_cache_mb * MB)
    arrays: list[ConcreteArray] = []
    for x in (*args, *kwargs.values()):
        _arrays_in(x, arrays)
    try:
        jaxpr = _recorded(fun, args, kwargs, arrays)
    except Exception:  # noqa: BLE001
        # While recorded, the function may ask for values; the ordinary call reports what is wrong.
        return None
    if [v.aval for v in jaxpr.outvars] != [x.aval for x in results]:
        return None
    inputs = {id(v): x for v, x in zip(jaxpr.invars, arrays, strict=True)}
    if any(id(v) in inputs and inputs[id(v)] is not x for v, x in zip(jaxpr.outvars, results)):
        # The function copies an argument that its recording returns unchanged.
        return None
    return make_plan(jaxpr, type(result) if type(result) in (tuple, list) else None)


_runtime.set_planner(plan_of)
_runtime.set_keyword_check(refuse_unknown_keywords)


def clear() -> None:
    """Forget the plans."""
    _runtime.forget_plans()
