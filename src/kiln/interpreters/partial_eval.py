"""Recording and trimming programs, by the names in `jax.interpreters.partial_eval`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.core.primitive import Primitive
from kiln.core.staging import StagingTracer as DynamicJaxprTracer
from kiln.core.staging import stage
from kiln.core.trace import aval_of
from kiln.extend.linear_util import WrappedFun
from kiln.interpreters.rule_tables import Rule, RuleTable
from kiln.ir.jaxpr import Eqn, Jaxpr
from kiln.ir.rewrite import drop_inputs, eliminate_dead_code
from kiln.ir.types import ShapedArray
from kiln.transforms.partial_eval import partial_eval

JaxprTracer = DynamicJaxprTracer
Val = Any


class PartialVal(NamedTuple):
    """A value, or the type of an unknown one: one of the two is None."""

    aval: ShapedArray | None
    const: Any

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """Return a known value."""
        return cls(None, const)

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        """Return an unknown value of a type."""
        return cls(aval, None)

    def is_known(self) -> bool:
        """Tell whether the value is known."""
        return self.aval is None

    def get_known(self) -> Any:
        """Return the value if it is known, else None."""
        return self.const

    def get_aval(self) -> ShapedArray:
        """Return the type."""
        return aval_of(self.const) if self.aval is None else self.aval


def _caller(fun: WrappedFun | Callable[..., Any]) -> Callable[..., Any]:
    return fun.call_wrapped if isinstance(fun, WrappedFun) else fun


def trace_to_jaxpr_dynamic(
    fun: WrappedFun | Callable[..., Any],
    in_avals: Sequence[ShapedArray],
    *,
    keep_inputs: Sequence[bool] | None = None,
    lower: bool = False,
    auto_dce: bool = False,
) -> tuple[Jaxpr, list[ShapedArray], list[Any]]:
    """Record a function of flat values; return the program, its result types, its constants.

    `lower` is ignored; with `auto_dce` equations without use are dropped.
    """
    jaxpr, consts = stage(_caller(fun), list(in_avals))
    if auto_dce:
        jaxpr, _ = eliminate_dead_code(jaxpr)
    if keep_inputs is not None:
        jaxpr = drop_inputs(jaxpr, list(keep_inputs))
    return jaxpr, jaxpr.out_avals, consts


def trace_to_jaxpr_nounits(
    fun: WrappedFun | Callable[..., Any],
    pvals: Sequence[PartialVal],
    instantiate: bool | Sequence[bool] = False,
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Run what is known of a function and record the rest: program, results, residuals.

    The program takes the residuals, then the unknown arguments; it returns the unknown results.
    """
    force: list[bool] = []

    def run(*args: Any) -> Sequence[Any]:
        outs = list(_caller(fun)(*args))
        force[:] = [instantiate] * len(outs) if isinstance(instantiate, bool) else instantiate
        return outs

    known, unknown, jaxpr, residuals = partial_eval(
        run, [p.const for p in pvals], [p.aval for p in pvals], force
    )
    values, avals = iter(known), iter(jaxpr.out_avals)
    outs = [
        PartialVal.unknown(next(avals)) if u else PartialVal.known(next(values)) for u in unknown
    ]
    whole = jaxpr.with_(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars], arg_names=())
    return whole, outs, residuals


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: bool | Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """Drop what the used results do not need; return the program, and which inputs it keeps.

    `instantiate` says which inputs to keep in any case.
    """
    clean, needed = eliminate_dead_code(jaxpr, _each(used_outputs, len(jaxpr.outvars)))
    forced = _each(instantiate, len(needed))
    kept = [n or f for n, f in zip(needed, forced, strict=True)]
    return drop_inputs(clean, kept), kept


def dce_jaxpr_consts(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool], list[bool]]:
    """Like `dce_jaxpr`, for constants too: return program, kept constants, kept inputs.

    `used_outputs` says which results are needed, `instantiate` which inputs are kept in any case.
    """
    clean, kept = dce_jaxpr(jaxpr, used_outputs, instantiate)
    used = {id(v) for eqn in clean.eqns for v in eqn.invars} | {id(v) for v in clean.outvars}
    consts = [id(v) in used for v in clean.constvars]
    found = [v for v, u in zip(clean.constvars, consts, strict=True) if u]
    return clean.with_(constvars=found), consts, kept


def _each(flags: bool | Sequence[bool], count: int) -> list[bool]:
    return [flags] * count if isinstance(flags, bool) else list(flags)


def _live(primitive: Primitive, rule: Rule) -> Rule:
    def live(eqn: Eqn, used: Sequence[bool]) -> Eqn:
        _, new = rule(list(used), eqn)
        return eqn if new is None else new

    return live


def _present_live(primitive: Primitive) -> Rule:
    def rule(used: Sequence[bool], eqn: Eqn) -> tuple[list[bool], Eqn | None]:
        if not any(used) and not eqn.effects:
            return [False] * len(eqn.invars), None
        new = primitive.live(eqn, used)  # type: ignore[misc]
        kept = {id(v) for v in new.invars}
        return [id(v) in kept for v in eqn.invars], new

    return rule


class _LiveTable(RuleTable):
    def _has(self, primitive: Primitive) -> bool:
        return primitive.live is not None


dce_rules = _LiveTable("live", _live, _present_live)
"""`rule(used results, equation) -> (used operands, equation without the other results)`."""

custom_partial_eval_rules: dict[Primitive, Rule] = {}
"""Not read: partial evaluation records an equation if an operand is unknown, else runs it."""
partial_eval_jaxpr_custom_rules: dict[Primitive, Rule] = {}
"""Not read: a checkpoint's policy asks about each equation, and about those in its programs."""

__all__ = [
    "DynamicJaxprTracer",
    "JaxprTracer",
    "PartialVal",
    "Val",
    "custom_partial_eval_rules",
    "dce_jaxpr",
    "dce_jaxpr_consts",
    "dce_rules",
    "partial_eval_jaxpr_custom_rules",
    "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits",
]
