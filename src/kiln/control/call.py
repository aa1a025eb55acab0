"""Primitives that run one jaxpr on their operands: a common base, and the primitive of `jit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.options.config import options
from kiln.control.regions.region import (
    Extend,
    Region,
    avals_of,
    fill_zeros,
    live_region,
    memoized,
    merge,
    pull_back,
    select_by,
    split,
)
from kiln.core.absent import is_linear, is_zero
from kiln.core.meaning import meaning
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import state
from kiln.execution.placement import Placer
from kiln.ir.analysis import key_uses
from kiln.ir.analysis.key_uses import Keys
from kiln.ir.jaxpr import Atom, Eqn, Jaxpr
from kiln.ir.types import ShapedArray
from kiln.transforms.batching import MappedAxis, batch_jaxpr
from kiln.transforms.jvp import jvp_jaxpr


class Subprogram(Region):
    """Run `jaxpr`; derived programs run with the same other parameters."""

    def infer(self, *xs: Any, jaxpr: Jaxpr, **_: Any) -> list[ShapedArray]:
        return jaxpr.out_avals

    def numpy(self, *xs: Any, jaxpr: Jaxpr, **_: Any) -> Any:
        return meaning(jaxpr, xs)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, **params: Any
    ) -> Any:
        moving = [not is_zero(t) for t in tangents]
        both, out_moving = jvp_jaxpr(jaxpr, moving)
        outs = self.bind(*primals, *select_by(moving, tangents), jaxpr=both, **params)
        n = len(jaxpr.outvars)
        zeros = [a.tangent() for a in jaxpr.out_avals]
        return outs[:n], fill_zeros(out_moving, outs[n:], zeros)

    def batch_over(
        self,
        axis: MappedAxis,
        xs: Sequence[Any],
        axes: Sequence[Any],
        *,
        jaxpr: Jaxpr,
        **params: Any,
    ) -> Any:
        stacked, at = batch_jaxpr(jaxpr, axis, axes)
        return self.bind(*xs, jaxpr=stacked, **params), [0 if s else None for s in at]

    def transpose(self, cts: Sequence[Any], *xs: Any, jaxpr: Jaxpr, **params: Any) -> Any:
        linear = [is_linear(x) for x in xs]
        moving = [not is_zero(ct) for ct in cts]
        back, there = pull_back(jaxpr, linear, moving)
        outs = self.bind(
            *select_by(linear, xs, False), *select_by(moving, cts), jaxpr=back, **params
        )
        pulled = fill_zeros(there, outs, avals_of(select_by(linear, xs)))
        return merge(linear, pulled, [None] * linear.count(False))

    def programs(self, xs: Sequence[Any], *, jaxpr: Jaxpr, **_: Any) -> Any:
        return [(jaxpr, xs)]

    def use_keys(self, eqn: Eqn, operands: Sequence[Keys], values: Sequence[Any]) -> list[Keys]:
        name = eqn.params.get("name", self.name)
        return key_uses.run_call(self.name, eqn.params["jaxpr"], operands, name)

    def thread_state(
        self,
        extend: Extend,
        state: Sequence[Any],
        xs: Sequence[Any],
        *,
        jaxpr: Jaxpr,
        **params: Any,
    ) -> Any:
        """Run the extended program."""
        return self.bind(*state, *xs, jaxpr=extend(jaxpr), **params)

    live = staticmethod(live_region)


class Call(Subprogram):
    """Run `jaxpr` as a separate program, called `name`."""

    name = "jit"

    def evaluate(self, *xs: Any, jaxpr: Jaxpr, name: str) -> Any:
        if not options().jit:
            return eval_jaxpr(jaxpr, (), *xs)
        # Made for a copy: values stored on a jaxpr must not keep that jaxpr alive.
        placer = memoized(jaxpr, ("placer", options().key()), lambda: Placer(jaxpr.with_(), name))
        return placer.run(xs)

    def partial_eval(self, trace: Any, xs: Sequence[Any], params: dict[str, Any]) -> Any:
        unknown = [trace.unknown(x) for x in xs]
        parts = split(params["jaxpr"], unknown)
        outs = trace.known_bind(
            self, select_by(unknown, xs, False), {**params, "jaxpr": parts.known}
        )
        known = outs[: len(outs) - parts.residuals]
        residuals = outs[len(outs) - parts.residuals :]
        operands = [*residuals, *select_by(unknown, xs)]
        staged = trace.record(
            self,
            [trace.atom(x) for x in operands],
            parts.staged.out_avals,
            {**params, "jaxpr": parts.staged},
        )
        return merge(parts.unknown_out, staged, known)


jit_p = Call()


def inlined(jaxpr: Jaxpr, purpose: str) -> Jaxpr:
    """Return a jaxpr with the equations of its calls, and of their calls, in their place."""
    if not any(eqn.primitive is jit_p for eqn in jaxpr.eqns):
        return jaxpr

    def run(inner: Jaxpr, args: Sequence[Any]) -> list[Any]:
        env: dict[Any, Any] = dict(zip(inner.invars, args, strict=True))

        def read(v: Atom) -> Any:
            return v.val if v.is_literal else env[v]

        for eqn in inner.eqns:
            state.source = eqn.source
            operands = [read(v) for v in eqn.invars]
            if eqn.primitive is jit_p:
                outs = run(eqn.params["jaxpr"], operands)
            else:
                result = eqn.primitive.bind(*operands, **eqn.params)
                outs = result if eqn.primitive.multiple else [result]
            env.update(zip(eqn.outvars, outs, strict=True))
        return [read(v) for v in inner.outvars]

    return stage_pure(lambda *xs: run(jaxpr, xs), jaxpr.in_avals, name=jaxpr.name, purpose=purpose)
