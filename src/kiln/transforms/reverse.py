"""Reverse mode: linearizing (jvp, partially evaluated) and running the linear program backwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.errors import ShardingTypeError
from kiln.core.absent import Linear, Zero, not_linear
from kiln.core.leaks import check_leaks
from kiln.core.staging import eval_jaxpr
from kiln.core.trace import aval_of, state
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.sharded_types import has_sharding
from kiln.ir.types import ShapedArray, dual, plain
from kiln.ops.elements.families import add
from kiln.ops.shape import filled
from kiln.ops.sharding import auto, retyped
from kiln.transforms.jvp import jvp
from kiln.transforms.partial_eval import PartialEvalTrace


class LinearProgram:
    """The derivative of a function at a point, as a jaxpr of tangents.

    `moving_in` and `moving_out` say which inputs and outputs have tangents.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        residuals: list[Any],
        in_avals: list[ShapedArray],
        out_avals: list[ShapedArray],
        moving_in: list[bool],
        moving_out: list[bool],
    ) -> None:
        self.jaxpr = jaxpr
        self.residuals = residuals
        self.in_avals = in_avals
        self.out_avals = out_avals
        self.moving_in = moving_in
        self.moving_out = moving_out

    def first(self, count: int) -> LinearProgram:
        """Return the derivative of only the first `count` outputs."""
        if count == len(self.out_avals):
            return self
        kept = sum(self.moving_out[:count])
        return LinearProgram(
            self.jaxpr.with_(outvars=self.jaxpr.outvars[:kept]),
            self.residuals,
            self.in_avals,
            self.out_avals[:count],
            self.moving_in,
            self.moving_out[:count],
        )

    def with_residuals(self, residuals: Sequence[Any]) -> LinearProgram:
        """Return the derivative at another point."""
        return LinearProgram(
            self.jaxpr,
            list(residuals),
            self.in_avals,
            self.out_avals,
            self.moving_in,
            self.moving_out,
        )

    def push(self, tangents: Sequence[Any]) -> list[Any]:
        """Return output tangents, Zero where there are none."""
        given = [filled(t) for t, m in zip(tangents, self.moving_in, strict=True) if m]
        outs = iter(eval_jaxpr(self.jaxpr, self.residuals, *given))
        return [
            next(outs) if m else Zero(a.tangent())
            for m, a in zip(self.moving_out, self.out_avals, strict=True)
        ]

    def pull(self, cotangents: Sequence[Any]) -> list[Any]:
        """Return input cotangents, Zero where there are none."""
        given = [c for c, m in zip(cotangents, self.moving_out, strict=True) if m]
        args = [Linear(v.aval) for v in self.jaxpr.invars]
        cts = iter(backward(self.jaxpr, self.residuals, args, given))
        return [
            next(cts) if m else Zero(a.tangent())
            for m, a in zip(self.moving_in, self.in_avals, strict=True)
        ]


def linearize(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any]
) -> tuple[list[Any], LinearProgram]:
    """Return the outputs of `fun(*primals) -> list` and its derivative there."""
    avals = [aval_of(p) for p in primals]
    moving_in = [a.tangent().dtype != dtypes.float0 for a in avals]
    trace = PartialEvalTrace(state.trace, purpose="linearize")
    parent = state.trace
    state.trace = trace
    try:
        tangents = [
            trace.argument(a) if m else Zero(a.tangent())
            for a, m in zip(avals, moving_in, strict=True)
        ]
        outs, out_tangents = jvp(fun, primals, tangents)
        moving_out = [type(t) is not Zero for t in out_tangents]
        jaxpr, residuals = trace.finish(
            [t for t, m in zip(out_tangents, moving_out, strict=True) if m]
        )
        del tangents, out_tangents
    finally:
        state.trace = parent
        trace.live = False
    check_leaks(trace)
    out_avals = [aval_of(x) for x in outs]
    return outs, LinearProgram(jaxpr, residuals, avals, out_avals, moving_in, moving_out)


def linear_program(
    fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray]
) -> LinearProgram:
    """Return the program of `fun(*arguments) -> list` that is linear in all its arguments."""
    parent = state.trace
    trace = PartialEvalTrace(parent, purpose="linear_transpose")
    state.trace = trace
    try:
        outs = fun(*[trace.argument(aval) for aval in avals])
        out_avals = [aval_of(x) for x in outs]
        jaxpr, residuals = trace.finish(outs)
    finally:
        state.trace = parent
        trace.live = False
    moving = ([True] * len(avals), [True] * len(out_avals))
    return LinearProgram(jaxpr, residuals, list(avals), out_avals, *moving)


def backward(
    jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Return the cotangents of the `Linear` arguments of a jaxpr linear in them (Zero if none).

    Equations that depend on no Linear argument are run forwards first.
    """
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    linear: set[Any] = set()
    for v, x in zip(jaxpr.invars, args, strict=True):
        if type(x) is Linear:
            linear.add(v)
        else:
            env[v] = x
    previous = state.source
    try:
        pending = []
        for eqn in jaxpr.eqns:
            if any(v in linear for v in eqn.invars):
                linear.update(eqn.outvars)
                pending.append(eqn)
                continue
            state.source = eqn.source
            values = [v.val if v.is_literal else env[v] for v in eqn.invars]  # type: ignore[union-attr]
            result = eqn.primitive.bind(*values, **eqn.params)
            env.update(
                zip(eqn.outvars, result if eqn.primitive.multiple else [result], strict=True)
            )
        cts: dict[Any, Any] = {}
        is_sharded = _has_sharded_types(jaxpr)

        def accumulate(v: Any, ct: Any) -> None:
            if ct is None or type(ct) is Zero or not isinstance(v, Var) or v not in linear:
                return
            if is_sharded:
                ct = retyped(ct, dual(v.aval))
            cts[v] = add(cts[v], ct) if v in cts else ct

        for atom, given in zip(jaxpr.outvars, cotangents, strict=True):
            accumulate(atom, given)
        asked = _pulling_zeros(jaxpr, pending) if cts else ()
        for eqn in reversed(pending):
            outs = [cts.pop(v, None) for v in eqn.outvars]
            if all(ct is None for ct in outs) and eqn not in asked:
                continue
            operands = [
                v.val  # type: ignore[union-attr]
                if v.is_literal
                else Linear(v.aval)
                if v in linear
                else env[v]
                for v in eqn.invars
            ]
            state.source = eqn.source
            if eqn.primitive.multiple:
                ct: Any = [
                    Zero(dual(v.aval)) if c is None else c
                    for v, c in zip(eqn.outvars, outs, strict=True)
                ]
            else:
                ct = outs[0]
            if is_sharded and not eqn.primitive.infers_shardings:
                pulled = _pulled(eqn, ct, operands)
            else:
                pulled = eqn.primitive.transpose(ct, *operands, **eqn.params)
            for atom, found in zip(eqn.invars, pulled, strict=True):
                if found is None and atom in linear and not eqn.primitive.region:
                    raise not_linear(atom.aval)
                accumulate(atom, found)
    finally:
        state.source = previous
    return [
        cts.get(v, Zero(dual(v.aval)))
        for v, x in zip(jaxpr.invars, args, strict=True)
        if type(x) is Linear
    ]


def _pulling_zeros(jaxpr: Jaxpr, pending: Sequence[Eqn]) -> Sequence[Eqn]:
    """Return the used equations that are transposed even if their cotangents are zero."""
    if not any(eqn.primitive.pulls_zeros for eqn in pending):
        return ()
    found: list[Eqn] = []
    used = set(jaxpr.outvars)
    for eqn in reversed(pending):
        if not used.isdisjoint(eqn.outvars):
            used.update(eqn.invars)
            if eqn.primitive.pulls_zeros:
                found.append(eqn)
    return found


def _has_sharded_types(jaxpr: Jaxpr) -> bool:
    """Tell whether a program has types with shardings."""
    if has_sharding([v.aval for v in (*jaxpr.constvars, *jaxpr.invars)]):
        return True
    return any(
        eqn.primitive.infers_shardings and has_sharding([v.aval for v in eqn.outvars])
        for eqn in jaxpr.eqns
    )


def _pulled(eqn: Eqn, ct: Any, operands: Sequence[Any]) -> Any:
    """Apply a transposition rule to values with sharded types.

    Where its operations leave open how their results are sharded, the compiler decides: cotangents
    are sharded as the operands they belong to.
    """
    try:
        return eqn.primitive.transpose(ct, *operands, **eqn.params)
    except ShardingTypeError:
        cts = [_auto(x) for x in ct] if eqn.primitive.multiple else _auto(ct)
        return eqn.primitive.transpose(cts, *map(_auto, operands), **eqn.params)


def _auto(x: Any) -> Any:
    if type(x) is Linear:
        return Linear(plain(x.aval))
    return Zero(plain(x.aval)) if type(x) is Zero else auto(x)
