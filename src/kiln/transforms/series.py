"""Taylor mode: propagating truncated power series along with primals, one operation at a time.

A value is a primal x0 and coefficients x1 ... xn of x(t) = x0 + x1 t + ... + xn t^n. A primitive
without a rule of its own needs none: with y = f(x), the series of y'(t) is that of the tangent
f'(x(t)) x'(t), which its jvp rule computes with primitives, and is needed to one order less. Rules
that save work are given to the trace by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.absent import Zero, is_zero
from kiln.core.leaks import check_leaks
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import Trace, Tracer, aval_of, check_live, state
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.operation import Operation
from kiln.ops.elements.elementwise import constant, mul
from kiln.ops.shape import filled, zeros_of

Terms = Sequence[Any] | None
"""The coefficients from the first on; None if all are zero."""

Rule = Callable[..., tuple[Any, Any]]
"""`rule(trace, primitive, primals, terms, params)` returns results and their terms."""


class SeriesTracer(Tracer):
    """A primal with the coefficients of its series."""

    __slots__ = ("primal", "terms")

    def __init__(self, owner: Trace, primal: Any, terms: Sequence[Any]) -> None:
        self.owner = owner
        self.aval = aval_of(primal)
        self.primal = primal
        self.terms = list(terms)

    def concrete(self) -> Any:
        """Return the primal's value, if it has one: control flow on it is allowed."""
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal

    def inside(self) -> tuple[Any, ...]:
        """Return primal and coefficients."""
        return self.primal, *self.terms

    def abstract(self) -> Tracer:
        """Return the innermost tracer that has no value."""
        return self.primal.abstract() if isinstance(self.primal, Tracer) else self


class SeriesTrace(Trace):
    """Applies each operation to series up to an order, by a rule or by its tangent."""

    __slots__ = ("order", "rules")

    def __init__(self, parent: Trace, order: int, rules: Mapping[str, Rule]) -> None:
        super().__init__(parent)
        self.order = order
        self.rules = rules

    def process(self, primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply an operation to series."""
        primals: list[Any] = []
        terms: list[Terms] = []
        for x in args:
            mine = type(x) is SeriesTracer and x.owner is self
            primals.append(x.primal if mine else x)
            terms.append(x.terms if mine else None)
        assert self.parent is not None
        state.trace = self.parent
        try:
            if all(t is None for t in terms):
                return primitive.bind(*primals, **params)
            rule: Rule = self.rules.get(primitive.name, by_tangent)
            out, moved = rule(self, primitive, primals, terms, params)
        finally:
            state.trace = self
        if primitive.multiple:
            return [self.wrap(x, t) for x, t in zip(out, moved, strict=True)]
        return self.wrap(out, moved)

    def wrap(self, primal: Any, terms: Terms) -> Any:
        """Return a primal with its series; only the primal if all coefficients are zero."""
        if terms is None or not dtypes.issubdtype(aval_of(primal).dtype, np.inexact):
            return primal
        out = SeriesTracer(self, primal, terms)
        if self.made is not None:
            self.note_origin(out)
        return out

    def split(self, x: Any) -> tuple[Any, Terms]:
        """Return the primal and the coefficients of a value."""
        if type(x) is SeriesTracer and x.owner is self:
            return x.primal, x.terms
        if isinstance(x, Tracer):
            check_live(x)
        return x, None

    def describe(self) -> str:
        """Describe what is being traced, for messages."""
        return "under jet"


def series(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    terms: Sequence[Terms],
    order: int,
    rules: Mapping[str, Rule],
) -> tuple[list[Any], list[Terms]]:
    """Return outputs and their coefficients of `fun(*primals) -> list`."""
    if order == 0:
        outs = list(fun(*primals))
        return outs, [None] * len(outs)
    parent = state.trace
    trace = SeriesTrace(parent, order, rules)
    state.trace = trace
    try:
        results = fun(*[trace.wrap(x, t) for x, t in zip(primals, terms, strict=True)])
        pairs = [trace.split(x) for x in results]
        del results
    finally:
        state.trace = parent
        trace.live = False
    check_leaks(trace)
    return [x for x, _ in pairs], [t for _, t in pairs]


def scaled(x: Any, factor: float) -> Any:
    """Return a coefficient times a number."""
    return x if factor == 1 else mul(x, constant(factor, x))


def by_tangent(
    trace: SeriesTrace,
    primitive: Operation,
    primals: Sequence[Any],
    terms: Sequence[Terms],
    params: dict[str, Any],
) -> tuple[Any, Any]:
    """Apply an operation by its jvp rule, which gives the series of the derivative by t."""
    moving = [t is not None for t in terms]
    count = len(primals)

    def both(*values: Any) -> list[Any]:
        given = iter(values[count:])
        tangents = [
            next(given) if m else Zero(aval_of(x).tangent())
            for m, x in zip(moving, primals, strict=True)
        ]
        outs, moved = primitive.jvp(values[:count], tangents, **params)
        if not primitive.multiple:
            outs, moved = [outs], [moved]
        kinds.extend(map(is_zero, moved))
        return [*outs, *(filled(t) for t in moved if not is_zero(t))]

    kinds: list[bool] = []
    order = trace.order - 1
    speeds = [[scaled(c, k + 1) for k, c in enumerate(t)] for t in terms if t is not None]
    values, found = series(
        both,
        [*primals, *(s[0] for s in speeds)],
        [*(None if t is None else t[:order] for t in terms), *(s[1:] for s in speeds)],
        order,
        trace.rules,
    )
    out = values[: len(kinds)]
    rest = iter(zip(values[len(kinds) :], found[len(kinds) :], strict=True))
    moved = [None if zero else _integrated(*next(rest), order) for zero in kinds]
    return (out, moved) if primitive.multiple else (out[0], moved[0])


def _integrated(first: Any, more: Terms, order: int) -> list[Any]:
    """Return the coefficients of a series of which those of the derivative are given."""
    others = [zeros_of(aval_of(first))] * order if more is None else more
    return [scaled(c, 1 / (k + 1)) for k, c in enumerate([first, *others])]


def series_jaxpr(
    jaxpr: Jaxpr,
    moving: Sequence[bool],
    order: int,
    rules: Mapping[str, Rule],
    force: Sequence[bool] | None = None,
) -> tuple[Jaxpr, list[bool]]:
    """Return the jaxpr of series; the second result says which outputs have one.

    Each `moving` input is followed by its coefficients, and so is each output that moves, or is
    requested by `force`.
    """
    forced = [False] * len(jaxpr.outvars) if force is None else list(force)
    key = ("series", tuple(moving), order, tuple(forced), id(rules))
    found = jaxpr.memo.get(key)
    if found is None:
        found = jaxpr.memo[key] = _series_jaxpr(jaxpr, moving, order, rules, forced)
    return found


def _series_jaxpr(
    jaxpr: Jaxpr,
    moving: Sequence[bool],
    order: int,
    rules: Mapping[str, Rule],
    forced: Sequence[bool],
) -> tuple[Jaxpr, list[bool]]:
    out_moving: list[bool] = []

    def together(*args: Any) -> list[Any]:
        primals, terms = unpacked(args, moving, order)
        outs, moved = series(lambda *xs: eval_jaxpr(jaxpr, (), *xs), primals, terms, order, rules)
        out_moving[:] = [f or t is not None for f, t in zip(forced, moved, strict=True)]
        return packed(outs, moved, out_moving, order)

    avals = []
    for var, m in zip(jaxpr.invars, moving, strict=True):
        avals += [var.aval] * (order + 1 if m else 1)
    result = stage_pure(together, avals, name=jaxpr.name, purpose="jet")
    return result, list(out_moving)


def packed(
    primals: Sequence[Any], terms: Sequence[Terms], moving: Sequence[bool], order: int
) -> list[Any]:
    """Return values in one list, each that moves followed by its coefficients."""
    out = []
    for x, t, m in zip(primals, terms, moving, strict=True):
        out.append(x)
        if m:
            out += [zeros_of(aval_of(x))] * order if t is None else t
    return out


def unpacked(
    values: Sequence[Any], moving: Sequence[bool], order: int
) -> tuple[list[Any], list[Terms]]:
    """Return primals and coefficients of what `packed` has returned."""
    rest = iter(values)
    primals: list[Any] = []
    terms: list[Terms] = []
    for m in moving:
        primals.append(next(rest))
        terms.append([next(rest) for _ in range(order)] if m else None)
    return primals, terms
