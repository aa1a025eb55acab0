"""Common parts of primitives that hold programs: splitting, pulling back, dead code.

Each derived program is stored on the jaxpr it comes from, so that repeatedly differentiating a
jitted function derives and compiles only once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.lazy import discharge
from kiln.base.named_tuples import NamedTuple
from kiln.core.absent import Linear, Zero
from kiln.core.primitive import Primitive
from kiln.core.staging import StagingTrace, eval_jaxpr, stage_pure
from kiln.core.trace import aval_of, state
from kiln.ir.effects import REFS, Effects, union
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.rewrite import drop_inputs, eliminate_dead_code
from kiln.ir.types import ShapedArray
from kiln.ops.shape import filled
from kiln.transforms.partial_eval import partial_eval
from kiln.transforms.reverse import backward

Extend = Callable[[Jaxpr], Jaxpr]
"""Makes a jaxpr take a state before its inputs, and return it before its results."""


class Region(Primitive):
    """A primitive with jaxprs (without constants) among its parameters.

    `thread_state(extend, state, operands, **params)`, if there is one, runs the region with jaxprs
    that `extend` has made thread a state; it returns the state, then the results.
    `programs(operands, **params)` lists the jaxprs that it applies, each with its operands.
    """

    multiple = True
    region = True
    infers_shardings = True
    takes_refs = True

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation; references stay references only while a program is recorded."""
        if type(state.trace) is not StagingTrace and not self.effects(params).isdisjoint(REFS):
            return discharge.bind_discharged(self, args, params)
        return super().bind(*args, **params)

    def effects(self, params: dict[str, Any]) -> Effects:
        return union(jaxpr.effects for jaxpr in jaxprs_of(params))


def jaxprs_of(params: dict[str, Any]) -> list[Jaxpr]:
    """Return the jaxprs among an equation's parameters."""
    found: list[Jaxpr] = []
    for value in params.values():
        candidates = value if isinstance(value, tuple) else (value,)
        found.extend(v for v in candidates if isinstance(v, Jaxpr))
    return found


def memoized(jaxpr: Jaxpr, key: Any, make: Callable[[], Any]) -> Any:
    """Return the value stored on the jaxpr under `key`, computing it first if needed."""
    found = jaxpr.memo.get(key)
    if found is None:
        found = jaxpr.memo[key] = make()
    return found


class Split(NamedTuple):
    """A jaxpr split in two.

    `known`: known inputs -> known outputs, then residuals.
    `staged`: residuals, then unknown inputs -> unknown outputs.
    """

    known: Jaxpr
    staged: Jaxpr
    unknown_out: tuple[bool, ...]
    residuals: int


def split(jaxpr: Jaxpr, unknown: Sequence[bool], force: Sequence[bool] | None = None) -> Split:
    """Split a jaxpr by which inputs are unknown; `force` makes outputs unknown."""
    key = ("split", tuple(unknown), None if force is None else tuple(force))
    return memoized(jaxpr, key, lambda: _split(jaxpr, unknown, force))


def _split(jaxpr: Jaxpr, unknown: Sequence[bool], force: Sequence[bool] | None) -> Split:
    avals = [v.aval if u else None for v, u in zip(jaxpr.invars, unknown, strict=True)]
    box: list[Any] = []

    def known_part(*known: Any) -> list[Any]:
        given = iter(known)
        args = [None if u else next(given) for u in unknown]
        outs, unknown_out, staged, residuals = partial_eval(
            lambda *xs: eval_jaxpr(jaxpr, (), *xs), args, avals, force
        )
        box[:] = [unknown_out, staged, len(residuals)]
        return [*outs, *residuals]

    known_avals = [v.aval for v, u in zip(jaxpr.invars, unknown, strict=True) if not u]
    known = stage_pure(known_part, known_avals, name=jaxpr.name, purpose="partial evaluation")
    unknown_out, staged, count = box
    staged = Jaxpr(
        [], [*staged.constvars, *staged.invars], staged.eqns, staged.outvars, name=jaxpr.name
    )
    mark_pure(staged, [False] * count + [True] * (len(staged.invars) - count))
    return Split(known, staged, tuple(unknown_out), count)


def mark_pure(jaxpr: Jaxpr, unknown: Sequence[bool]) -> None:
    """Mark that all results of all equations of a jaxpr depend on the `unknown` inputs."""
    jaxpr.memo["pure"] = tuple(unknown)


def is_pure(jaxpr: Jaxpr, unknown: Sequence[bool]) -> bool:
    """Tell whether all results of all equations are known to depend on the `unknown` inputs."""
    return bool(jaxpr.memo.get("pure") == tuple(unknown))


def pull_back(
    jaxpr: Jaxpr,
    linear: Sequence[bool],
    moving: Sequence[bool],
    force: Sequence[bool] | None = None,
) -> tuple[Jaxpr, list[bool]]:
    """Return the transposed jaxpr.

    Inputs: the non-linear inputs, then cotangents of the `moving` outputs. Outputs: cotangents of
    the linear inputs, without those known to be zero unless requested by `force`; the second result
    says which are present.
    """
    forced = tuple(force) if force is not None else (False,) * list(linear).count(True)
    key = ("pull_back", tuple(linear), tuple(moving), forced)
    return memoized(jaxpr, key, lambda: _pull_back(jaxpr, linear, moving, forced))


def _pull_back(
    jaxpr: Jaxpr, linear: Sequence[bool], moving: Sequence[bool], force: Sequence[bool]
) -> tuple[Jaxpr, list[bool]]:
    fixed = list(linear).count(False)
    there: list[bool] = []

    def back(*args: Any) -> list[Any]:
        values, given = iter(args[:fixed]), iter(args[fixed:])
        operands = [
            Linear(v.aval) if lin else next(values)
            for v, lin in zip(jaxpr.invars, linear, strict=True)
        ]
        cts = [
            next(given) if m else Zero(v.aval) for v, m in zip(jaxpr.outvars, moving, strict=True)
        ]
        outs = _backward(jaxpr, linear, operands, cts)
        there[:] = [f or type(ct) is not Zero for f, ct in zip(force, outs, strict=True)]
        return [filled(ct) for ct in select_by(there, outs)]

    avals = [v.aval for v, lin in zip(jaxpr.invars, linear, strict=True) if not lin]
    avals += [v.aval for v, m in zip(jaxpr.outvars, moving, strict=True) if m]
    return stage_pure(back, avals, name=jaxpr.name, purpose="transposition"), list(there)


def _backward(
    jaxpr: Jaxpr, linear: Sequence[bool], operands: Sequence[Any], cts: Sequence[Any]
) -> list[Any]:
    if not any(eqn.primitive.region for eqn in jaxpr.eqns) or is_pure(jaxpr, linear):
        return backward(jaxpr, (), operands, cts)
    # An inner program may mix results that depend on the linear inputs with others: split it first.
    parts = split(jaxpr, linear)
    outs = eval_jaxpr(parts.known, (), *select_by(linear, operands, False))
    residuals = outs[len(outs) - parts.residuals :]
    pending = [*residuals, *select_by(linear, operands)]
    return backward(parts.staged, (), pending, select_by(parts.unknown_out, cts))


def live_region(eqn: Eqn, used: Sequence[bool]) -> Eqn:
    """Drop unused outputs of an equation whose one `jaxpr` maps operands to results directly."""
    jaxpr, needed = memoized(
        eqn.params["jaxpr"],
        ("live", tuple(used)),
        lambda: _live(eqn.params["jaxpr"], used),
    )
    return eqn.with_(
        invars=[v for v, n in zip(eqn.invars, needed, strict=True) if n],
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
        params={**eqn.params, "jaxpr": jaxpr},
        effects=jaxpr.effects,
    )


def _live(jaxpr: Jaxpr, used: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    clean, needed = eliminate_dead_code(jaxpr, used)
    return drop_inputs(clean, needed), needed


def select_by(mask: Sequence[bool], items: Sequence[Any], want: bool = True) -> list[Any]:
    """Return the items where the mask is `want`."""
    return [x for x, m in zip(items, mask, strict=True) if bool(m) is want]


def merge(mask: Sequence[bool], on_true: Sequence[Any], on_false: Sequence[Any]) -> list[Any]:
    """Interleave two lists by a mask."""
    yes, no = iter(on_true), iter(on_false)
    return [next(yes) if m else next(no) for m in mask]


def fill_zeros(
    there: Sequence[bool], values: Sequence[Any], avals: Sequence[ShapedArray]
) -> list[Any]:
    """Return values where present, Zeros of the given types elsewhere."""
    given = iter(values)
    return [next(given) if t else Zero(a) for t, a in zip(there, avals, strict=True)]


def after_state(jaxpr: Jaxpr, state: int, leading: int) -> Jaxpr:
    """Move the state of an extended jaxpr behind the first of its other inputs."""
    ins = jaxpr.invars
    moved = [*ins[state : state + leading], *ins[:state], *ins[state + leading :]]
    return jaxpr.with_(invars=moved, arg_names=())


def fresh_vars(avals: Sequence[ShapedArray]) -> list[Var]:
    """Return new variables of the given types."""
    return [Var(aval) for aval in avals]


def avals_of(xs: Sequence[Any]) -> list[ShapedArray]:
    """Return the types of values."""
    return [aval_of(x) for x in xs]
