"""Partial evaluation: operations on known operands go to the parent, others are staged.

A program over unknown values is recorded, while everything known runs immediately (or is staged by
the parent trace). Known values that the recorded part needs become its constants: the residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.core.staging import StagingTrace, StagingTracer
from kiln.core.trace import state
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.operation import Operation
from kiln.ir.rewrite import eliminate_dead_code
from kiln.ir.types import ShapedArray


class PartialEvalTrace(StagingTrace):
    """Records only what depends on unknown values."""

    __slots__ = ()

    def unknown(self, x: Any) -> bool:
        """Tell whether a value is unknown here."""
        return type(x) is StagingTracer and x.owner is self

    def process(self, primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply an operation immediately if all its operands are known, else record it."""
        for x in args:
            if type(x) is StagingTracer and x.owner is self:
                break
        else:
            return self.known_bind(primitive, args, params)
        if primitive.partial_eval is not None:
            return primitive.partial_eval(self, args, params)
        return super().process(primitive, args, params)

    def known_bind(self, primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply an operation under the parent trace."""
        assert self.parent is not None
        state.trace = self.parent
        try:
            return primitive.bind(*args, **params)
        finally:
            state.trace = self

    def finish(self, outs: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """Return the recorded program with the given outputs, and its residuals."""
        outvars = [self.atom(x) for x in outs]
        captured = list(self.consts.values())
        whole = Jaxpr([v for v, _ in captured], self.invars, self.eqns, outvars)
        clean, _ = eliminate_dead_code(whole)
        used = {id(v) for eqn in clean.eqns for v in eqn.invars} | {id(v) for v in clean.outvars}
        kept = [(v, x) for v, x in captured if id(v) in used]
        return clean.with_(constvars=[v for v, _ in kept]), [x for _, x in kept]


def partial_eval(
    fun: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    unknown_avals: Sequence[ShapedArray | None],
    force: Sequence[bool] | None = None,
) -> tuple[list[Any], list[bool], Jaxpr, list[Any]]:
    """Run `fun` with the arguments whose `unknown_avals` entry is None known, the others unknown.

    Returns the known outputs, which outputs are unknown (including those requested by `force`), the
    jaxpr from unknown arguments to unknown outputs (its constants are the residuals), and the
    residuals.
    """
    trace = PartialEvalTrace(state.trace)
    state.trace = trace
    try:
        outs = fun(
            *[
                x if aval is None else trace.argument(aval)
                for x, aval in zip(args, unknown_avals, strict=True)
            ]
        )
        unknown = [trace.unknown(x) or (force is not None and force[i]) for i, x in enumerate(outs)]
        jaxpr, residuals = trace.finish([x for x, u in zip(outs, unknown, strict=True) if u])
    finally:
        assert trace.parent is not None
        state.trace = trace.parent
        trace.live = False
    return [x for x, u in zip(outs, unknown, strict=True) if not u], unknown, jaxpr, residuals
