"""Trading time for memory: the backward pass recomputes what the forward pass did not store.

When differentiated, the program is split as usual into a known and a linear part. Then the
computation of each residual, back to operands and values that the policy allows to store, is copied
from the known part into the linear part, which thus contains its own forward pass.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from kiln.base.errors import three_lines
from kiln.base.keywords import known_keywords
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options, override
from kiln.base.source import api_boundary, current_source, definition_of, name_of
from kiln.base.tree import tree_unflatten
from kiln.control.call import Subprogram, inlined
from kiln.control.regions.arguments import (
    argnums_of,
    as_seen,
    flatten_arrays,
    merge_static,
    split_static,
)
from kiln.control.regions.held_refs import held, is_derivative
from kiln.control.regions.region import (
    memoized,
    merge,
    select_by,
    split,
)
from kiln.core.staging import eval_jaxpr, stage_region
from kiln.core.trace import aval_of, state
from kiln.ir.analysis.key_uses import Keys, fresh
from kiln.ir.effects import HELD, must_keep
from kiln.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from kiln.ir.own_effects import check_allowed, remat_allowed_effects
from kiln.ir.rewrite import eliminate_dead_code

P = ParamSpec("P")
R = TypeVar("R")

Policy = Callable[..., bool]


class Recomputation(NamedTuple):
    """A jaxpr split in two, the second part with its own forward pass.

    `known`: known inputs -> known outputs, then kept values. `staged`: the known inputs numbered by
    `inputs`, kept values, unknown inputs -> unknown outputs.
    """

    known: Jaxpr
    staged: Jaxpr
    unknown_out: tuple[bool, ...]
    inputs: tuple[int, ...]
    kept: int


def recomputation(jaxpr: Jaxpr, unknown: Sequence[bool], policy: Policy | None) -> Recomputation:
    """Split a jaxpr by which inputs are unknown, storing only what the policy allows."""
    key = ("recomputation", tuple(unknown), policy)
    return memoized(jaxpr, key, lambda: _recomputation(jaxpr, unknown, policy))


def _recomputation(jaxpr: Jaxpr, unknown: Sequence[bool], policy: Policy | None) -> Recomputation:
    # A policy refers to operations, so it must see inside jitted functions.
    parts = split(jaxpr if policy is None else inlined(jaxpr, "checkpoint"), unknown)
    known, count = parts.known, len(parts.known.outvars) - parts.residuals
    residuals = known.outvars[count:]
    needed = {v for v in residuals if isinstance(v, Var)}
    kept: list[Var] = []
    again: list[Eqn] = []
    for eqn in reversed(known.eqns):
        wanted = [v for v in eqn.outvars if v in needed]
        if not wanted:
            continue
        if _saveable(eqn, policy):
            kept.extend(wanted)
        else:
            again.append(eqn)
            needed.update(v for v in eqn.invars if isinstance(v, Var))
    inputs = [i for i, v in enumerate(known.invars) if v in needed]
    values = dict(zip(parts.staged.invars, residuals, strict=False))
    eqns = [*reversed(again), *(_substituted(eqn, values) for eqn in parts.staged.eqns)]
    staged = Jaxpr(
        [],
        [
            *[known.invars[i] for i in inputs],
            *kept,
            *parts.staged.invars[parts.residuals :],
        ],
        eqns,
        [values.get(v, v) for v in parts.staged.outvars],  # type: ignore[arg-type]
        name=jaxpr.name,
    )
    forward, _ = eliminate_dead_code(known.with_(outvars=[*known.outvars[:count], *kept]))
    return Recomputation(forward, staged, parts.unknown_out, tuple(inputs), len(kept))


def _saveable(eqn: Eqn, policy: Policy | None) -> bool:
    if must_keep(eqn.effects):
        return True
    if policy is None:
        return False
    return bool(policy(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params))


def _substituted(eqn: Eqn, values: dict[Var, Atom]) -> Eqn:
    return eqn.with_(invars=[values.get(v, v) for v in eqn.invars])  # type: ignore[arg-type]


class Checkpoint(Subprogram):
    """Run `jaxpr`; with `differentiated`, it is the part that recomputes residuals."""

    name = "checkpoint"
    for_transformations = ("policy",)

    def evaluate(self, *xs: Any, jaxpr: Jaxpr, differentiated: bool, **_: Any) -> Any:
        if differentiated and options().debug_key_reuse:
            # The recomputation uses the same random keys again.
            with override(debug_key_reuse=False):
                return eval_jaxpr(jaxpr, (), *xs)
        return eval_jaxpr(jaxpr, (), *xs)

    def use_keys(self, eqn: Eqn, operands: Sequence[Keys], values: Sequence[Any]) -> list[Keys]:
        if eqn.params["differentiated"]:
            return [fresh(v.aval) for v in eqn.outvars]
        return super().use_keys(eqn, operands, values)

    def partial_eval(self, trace: Any, xs: Sequence[Any], params: dict[str, Any]) -> Any:
        unknown = [trace.unknown(x) for x in xs]
        check_allowed(self.name, params["jaxpr"].effects, remat_allowed_effects)
        parts = recomputation(params["jaxpr"], unknown, params["policy"])
        known_xs = select_by(unknown, xs, False)
        outs = trace.known_bind(self, known_xs, {**params, "jaxpr": parts.known})
        known, kept = outs[: len(outs) - parts.kept], outs[len(outs) - parts.kept :]
        operands = [*[known_xs[i] for i in parts.inputs], *kept, *select_by(unknown, xs)]
        staged = trace.record(
            self,
            [trace.atom(x) for x in operands],
            parts.staged.out_avals,
            {**params, "jaxpr": parts.staged, "differentiated": True},
        )
        return merge(parts.unknown_out, staged, known)


checkpoint_p = Checkpoint()


@known_keywords
def checkpoint(
    fun: Callable[P, R],
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: Any = (),
) -> Callable[P, R]:
    """Return `fun`, recomputing its intermediates in reverse mode instead of storing them.

    `policy` (see `checkpoint_policies`) selects intermediates that are stored anyway. `prevent_cse`
    keeps the compiler from merging the second computation with the first; loops do not need it.

    Source: the documentation of `jax.checkpoint`.
    Example:
        >>> f = kiln.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
        >>> float(kiln.grad(f)(0.0))
        1.0
        >>> saved = kiln.checkpoint_policies.nothing_saveable
        >>> g = kiln.checkpoint(lambda x: jnp.exp(jnp.sin(x)), policy=saved)
        >>> float(kiln.grad(g)(0.0))
        1.0
    """
    if not callable(fun):
        raise TypeError(
            three_lines(
                f"checkpoint of a function at {current_source()}",
                f"Expected a callable value, got {fun!r}",
                "give options by keyword: functools.partial(checkpoint, policy=...)",
            )
        )
    argnums = argnums_of("static_argnums", static_argnums)

    @functools.wraps(fun)
    @api_boundary
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        static, dynamic = split_static(fun, args, argnums, "static_argnums")
        leaves, in_tree = flatten_arrays("arguments", fun, held((tuple(dynamic), kwargs)))
        box: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            given, named = tree_unflatten(in_tree, xs)
            result = fun(*merge_static(static, given), **named)
            outs, out_tree = flatten_arrays("result", fun, result)
            box[:] = [out_tree]
            return list(map(as_seen, outs))

        jaxpr, consts = stage_region(
            flat,
            [aval_of(x) for x in leaves],
            name=name_of(fun),
            definition=definition_of(fun),
            purpose="checkpoint",
        )
        if HELD in jaxpr.effects and is_derivative(state.trace):
            # Rules that run later write to references, which exist only outside the function.
            return fun(*args, **kwargs)
        outs = checkpoint_p.bind(
            *consts,
            *leaves,
            jaxpr=jaxpr,
            policy=policy,
            prevent_cse=prevent_cse,
            differentiated=False,
        )
        return tree_unflatten(box[0], outs)

    return checkpointed


remat = checkpoint
