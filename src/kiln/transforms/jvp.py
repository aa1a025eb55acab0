"""Forward mode: propagating tangents along with primals, one operation at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.core.absent import Zero
from kiln.core.leaks import check_leaks
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import Trace, Tracer, aval_of, check_live, state
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.operation import Operation
from kiln.ops.shape import filled


class JVPTracer(Tracer):
    """A primal with its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, owner: Trace, primal: Any, tangent: Any) -> None:
        self.owner = owner
        self.aval = aval_of(primal)
        self.primal = primal
        self.tangent = tangent

    def concrete(self) -> Any:
        """Return the primal's value, if it has one: control flow on it is allowed."""
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal

    def inside(self) -> tuple[Any, ...]:
        """Return primal and tangent."""
        return self.primal, self.tangent

    def abstract(self) -> Tracer:
        """Return the innermost tracer that has no value."""
        return self.primal.abstract() if isinstance(self.primal, Tracer) else self


class JVPTrace(Trace):
    """Applies the jvp rule of each operation."""

    __slots__ = ()

    def process(self, primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply an operation to primals and tangents."""
        primals: list[Any] = []
        tangents: list[Any] = []
        moving = False
        for x in args:
            if type(x) is JVPTracer and x.owner is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                moving = moving or type(x.tangent) is not Zero
            else:
                primals.append(x)
                tangents.append(Zero(aval_of(x).tangent()))
        assert self.parent is not None
        state.trace = self.parent
        try:
            if not moving:
                return primitive.bind(*primals, **params)
            out, tangent = primitive.jvp(primals, tangents, **params)
        finally:
            state.trace = self
        if primitive.multiple:
            return [self.wrap(p, t) for p, t in zip(out, tangent, strict=True)]
        return self.wrap(out, tangent)

    def wrap(self, primal: Any, tangent: Any) -> Any:
        """Return a primal with its tangent; only the primal if the tangent is Zero."""
        if type(tangent) is Zero:
            return primal
        out = JVPTracer(self, primal, tangent)
        if self.made is not None:
            self.note_origin(out)
        return out

    def split(self, x: Any) -> tuple[Any, Any]:
        """Return the primal and the tangent of a value."""
        if type(x) is JVPTracer and x.owner is self:
            return x.primal, x.tangent
        if isinstance(x, Tracer):
            check_live(x)
        return x, Zero(aval_of(x).tangent())

    def describe(self) -> str:
        """Describe what is being traced, for messages."""
        return "under differentiation"


def jvp(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Return outputs and their tangents of `fun(*primals) -> list`; tangents may be Zero."""
    parent = state.trace
    trace = JVPTrace(parent)
    state.trace = trace
    try:
        outs = fun(*[trace.wrap(p, t) for p, t in zip(primals, tangents, strict=True)])
        pairs = [trace.split(x) for x in outs]
        del outs
    finally:
        state.trace = parent
        trace.live = False
    check_leaks(trace)
    return [p for p, _ in pairs], [t for _, t in pairs]


def jvp_jaxpr(
    jaxpr: Jaxpr, moving: Sequence[bool], force: Sequence[bool] | bool = False
) -> tuple[Jaxpr, list[bool]]:
    """Return the jaxpr of primals and tangents.

    Inputs: all primals, then the tangents of the `moving` inputs. Outputs: all primals, then the
    tangents that are not Zero, or are requested by `force`; the second result says which.
    """
    forced = [force] * len(jaxpr.outvars) if isinstance(force, bool) else list(force)
    key = ("jvp", tuple(moving), tuple(forced))
    found = jaxpr.memo.get(key)
    if found is None:
        found = jaxpr.memo[key] = _jvp_jaxpr(jaxpr, moving, forced)
    return found


def _jvp_jaxpr(
    jaxpr: Jaxpr, moving: Sequence[bool], forced: Sequence[bool]
) -> tuple[Jaxpr, list[bool]]:
    n = len(jaxpr.invars)
    out_moving: list[bool] = []

    def both(*args: Any) -> list[Any]:
        given = iter(args[n:])
        tangents = [
            next(given) if m else Zero(v.aval.tangent())
            for m, v in zip(moving, jaxpr.invars, strict=True)
        ]
        outs, out_tangents = jvp(lambda *xs: eval_jaxpr(jaxpr, (), *xs), args[:n], tangents)
        out_moving[:] = [
            f or type(t) is not Zero for f, t in zip(forced, out_tangents, strict=True)
        ]
        kept = [filled(t) for t, m in zip(out_tangents, out_moving, strict=True) if m]
        return [*outs, *kept]

    tangent_avals = [v.aval.tangent() for v, m in zip(jaxpr.invars, moving, strict=True) if m]
    result = stage_pure(both, [*jaxpr.in_avals, *tangent_avals], name=jaxpr.name, purpose="jvp")
    return result, list(out_moving)
