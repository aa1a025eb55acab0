"""Rewriting programs: dead code, substitution, structural identity."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from kiln.base.caches.hashed import Hashed
from kiln.base.caches.revisions import revision
from kiln.ir.effects import must_keep
from kiln.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from kiln.ir.types import ShapedArray


def eliminate_dead_code(
    jaxpr: Jaxpr, used: Sequence[bool] | None = None
) -> tuple[Jaxpr, list[bool]]:
    """Drop what the used outputs do not need; return the jaxpr, and which inputs are needed.

    All inputs keep their binders; unused outputs are dropped.
    """
    outvars = [v for i, v in enumerate(jaxpr.outvars) if used is None or used[i]]
    live: set[Var] = {v for v in outvars if isinstance(v, Var)}
    kept: list[Eqn] = []
    for eqn in reversed(jaxpr.eqns):
        wanted = [v in live for v in eqn.outvars]
        keep = must_keep(eqn.effects)
        if not keep and not any(wanted):
            continue
        if eqn.primitive.live is not None and not all(wanted):
            eqn = eqn.primitive.live(eqn, wanted)
        kept.append(eqn)
        live.update(v for v in eqn.invars if isinstance(v, Var))
    kept.reverse()
    result = jaxpr.with_(eqns=kept, outvars=outvars)
    return result, [v in live for v in jaxpr.invars]


def drop_inputs(jaxpr: Jaxpr, keep: Sequence[bool]) -> Jaxpr:
    """Drop unused inputs."""
    names = jaxpr.arg_names
    return jaxpr.with_(
        invars=[v for v, k in zip(jaxpr.invars, keep, strict=True) if k],
        arg_names=[n for n, k in zip(names, keep, strict=True) if k] if names else (),
    )


def canonical(jaxpr: Jaxpr) -> Hashable:
    """Return a value that is equal for programs of the same structure, up to their variables.

    Programs with a primitive are not equal if a rule of it was replaced in between.
    """
    return _memoized(canonical, jaxpr, _itself)


def canonical_for_engines(jaxpr: Jaxpr) -> Hashable:
    """Return a value that is equal for programs that can share an executable.

    Like `canonical`, but ignoring whether operands and results are weakly typed.
    """
    return _memoized(canonical_for_engines, jaxpr, _strong)


def _memoized(
    of: Callable[[Jaxpr], Hashable], jaxpr: Jaxpr, kind: Callable[[ShapedArray], ShapedArray]
) -> Hashable:
    now = revision()
    found: tuple[int, Hashable] | None = jaxpr.memo.get(of)
    if found is None or found[0] != now:
        found = jaxpr.memo[of] = (now, Hashed(_canonical(jaxpr, kind)))
    return found[1]


def _itself(aval: ShapedArray) -> ShapedArray:
    return aval


def _strong(aval: ShapedArray) -> ShapedArray:
    return aval.with_(weak_type=False) if aval.weak_type else aval


def _canonical(jaxpr: Jaxpr, kind: Callable[[ShapedArray], ShapedArray]) -> Hashable:
    numbers: dict[Var, int] = {}

    def number(var: Var) -> int:
        return numbers.setdefault(var, len(numbers))

    def atom(x: Atom) -> Hashable:
        if isinstance(x, Var):
            return number(x)
        # The bytes distinguish 0.0 from -0.0, and make nan equal to itself.
        return ("literal", np.asarray(x.val, x.aval.dtype).tobytes(), kind(x.aval))

    def binders(variables: Sequence[Var]) -> Hashable:
        return tuple((number(v), kind(v.aval)) for v in variables)

    head = (binders(jaxpr.constvars), binders(jaxpr.invars))
    eqns = tuple(
        (
            eqn.primitive,
            eqn.primitive.revision,
            tuple(map(atom, eqn.invars)),
            binders(eqn.outvars),
            params_key(eqn.params),
        )
        for eqn in jaxpr.eqns
    )
    return (head, eqns, tuple(map(atom, jaxpr.outvars)))


def params_key(params: dict[str, Any]) -> Hashable:
    """Return a hashable value that identifies an equation's parameters."""
    return tuple((name, _param_key(params[name])) for name in sorted(params))


class _Identity:
    """A parameter compared by identity; keeps the object alive so that its id is not reused."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value


def _param_key(value: Any) -> Hashable:
    if isinstance(value, Jaxpr):
        return ("jaxpr", canonical(value))
    if isinstance(value, ClosedJaxpr):
        return ("closed", canonical(value.jaxpr), tuple(map(_Identity, value.consts)))
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, tuple(map(_param_key, value)))
    if isinstance(value, float):
        return ("float", value.hex())
    if isinstance(value, np.generic):
        return ("scalar", value.dtype, value.tobytes())
    if isinstance(value, np.ndarray):
        return ("ndarray", value.shape, value.dtype, value.tobytes())
    try:
        hash(value)
    except TypeError:
        return _Identity(value)
    return (type(value), value)
