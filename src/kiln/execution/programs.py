"""What is compiled: a jaxpr without what nobody needs, and how it was asked for.

Engines know nothing of types that tell shardings: each value that has such a type is constrained to
be sharded so, and all types become plain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from kiln.base.config import options
from kiln.core.engine import BATCH_INVARIANT, Placement, Program
from kiln.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from kiln.ir.mesh import Mesh, PartitionSpec
from kiln.ir.operation import Operation
from kiln.ir.own_effects import check_lowerable
from kiln.ir.rewrite import drop_inputs, eliminate_dead_code
from kiln.ir.sharding import NamedSharding, Sharding
from kiln.ir.types import ShardedArray, compiler_decides, is_told, plain


def program_of(
    jaxpr: Jaxpr,
    name: str,
    keep_unused: bool = False,
    compiler_options: tuple[tuple[str, Any], ...] = (),
    donated: tuple[int, ...] = (),
    placement: Placement | None = None,
) -> tuple[Program, list[int] | None]:
    """Drop dead code and, unless `keep_unused`, unused inputs; return which inputs remain.

    The program also has the compiler options that options of kiln stand for.
    """
    if options().batch_invariant:
        compiler_options = (*compiler_options, (BATCH_INVARIANT, True))
    if placement is not None and placement.mesh is not None:
        jaxpr = without_told_types(jaxpr)
    clean, used = eliminate_dead_code(jaxpr)
    check_lowerable(name, clean.effects, 1 if placement is None else len(placement.devices))
    if keep_unused or all(used):
        return Program(clean, name, compiler_options, donated, placement), None
    kept = [i for i, u in enumerate(used) if u]
    if placement is not None and placement.in_shardings:
        in_shardings = tuple([placement.in_shardings[i] for i in kept])
        placement = dataclasses.replace(placement, in_shardings=in_shardings)
    donated = tuple([n for n, i in enumerate(kept) if i in donated])
    return Program(drop_inputs(clean, used), name, compiler_options, donated, placement), kept


_constraint: Operation | None = None


def set_constraint(constraint: Operation) -> None:
    """Install the primitive that constrains a value to be sharded as its `sharding` says."""
    global _constraint
    _constraint = constraint


def without_told_types(jaxpr: Jaxpr) -> Jaxpr:
    """Return the program with constraints in place of types that tell shardings."""
    found = jaxpr.memo.get(without_told_types)
    if found is None:
        found = jaxpr.memo[without_told_types] = _rewritten(jaxpr) if _tells(jaxpr) else jaxpr
    return found


def _tells(jaxpr: Jaxpr) -> bool:
    # Such types start at inputs, and at operations that tell shardings: these include all that hold
    # programs.
    if is_told([v.aval for v in (*jaxpr.constvars, *jaxpr.invars)]):
        return True
    return any(
        is_told([v.aval for v in eqn.outvars]) or any(map(_tells, _inside(eqn)))
        for eqn in jaxpr.eqns
        if eqn.primitive.tells_shardings
    )


def _inside(eqn: Eqn) -> list[Jaxpr]:
    found = []
    for value in eqn.params.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(each, ClosedJaxpr):
                each = each.jaxpr
            if isinstance(each, Jaxpr):
                found.append(each)
    return found


def _rewritten(jaxpr: Jaxpr) -> Jaxpr:
    env: dict[Var, Var] = {}

    def bound(v: Var) -> Var:
        if type(v.aval) is ShardedArray:
            env[v] = Var(plain(v.aval))
        return env.get(v, v)

    def read(x: Atom) -> Atom:
        if isinstance(x, Var):
            return env.get(x, x)
        return Literal(x.val, plain(x.aval)) if type(x.aval) is ShardedArray else x

    constvars, binders = list(map(bound, jaxpr.constvars)), list(map(bound, jaxpr.invars))
    eqns = []
    for eqn in jaxpr.eqns:
        params = {name: _value(value) for name, value in eqn.params.items()}
        outvars = list(map(bound, eqn.outvars))
        primitive = eqn.primitive
        if primitive.tells_shardings and _asserts(params.get("sharding")):
            # A check of types, which has passed.
            assert _constraint is not None
            primitive = _constraint
        invars = list(map(read, eqn.invars))
        eqns.append(eqn.with_(primitive=primitive, invars=invars, outvars=outvars, params=params))
        if primitive.region or primitive is _constraint:
            # The programs inside constrain their results.
            continue
        mesh = _mesh_of_operands(eqn)
        for v in eqn.outvars:
            sharding = _told(v.aval, mesh)
            if sharding is not None and sharding.devices:
                before = env.get(v, v)
                env[v] = Var(before.aval)
                eqns.append(_constrained(eqn, before, env[v], sharding))
    return jaxpr.with_(
        constvars=constvars, invars=binders, eqns=eqns, outvars=list(map(read, jaxpr.outvars))
    )


def _mesh_of_operands(eqn: Eqn) -> Any:
    told = [v.aval for v in eqn.invars if type(v.aval) is ShardedArray]
    return told[0].placing.mesh if told and not eqn.primitive.tells_shardings else None


def _told(aval: Any, mesh: Any) -> NamedSharding | None:
    """Return how a value is sharded, as its type tells; None if that is left to the compiler.

    What an operation makes of arrays over a mesh, and nothing splits, each device has whole.
    """
    if type(aval) is ShardedArray:
        return aval.placing
    return None if mesh is None else NamedSharding(mesh, PartitionSpec(*[None] * len(aval.shape)))


def _asserts(sharding: Any) -> bool:
    return isinstance(sharding, NamedSharding) and sharding.mesh.are_all_axes_explicit


def _constrained(eqn: Eqn, before: Var, after: Var, sharding: NamedSharding) -> Eqn:
    assert _constraint is not None
    params = {"sharding": sharding}
    return Eqn(_constraint, [before], [after], params, _constraint.effects(params), eqn.source)


def _value(value: Any) -> Any:
    if isinstance(value, Jaxpr):
        return without_told_types(value)
    if isinstance(value, ClosedJaxpr):
        inner = without_told_types(value.jaxpr)
        return value if inner is value.jaxpr else ClosedJaxpr(inner, value.consts)
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        items = [_value(x) for x in value]
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return type(value)(items)
    return value


def shardings_of_results(
    jaxpr: Jaxpr, given: Sequence[Sharding | None], mesh: Mesh
) -> Sequence[Sharding | None]:
    """Return how results are sharded: as `given` or, if types tell shardings, as theirs do."""
    types = jaxpr.out_avals
    if compiler_decides() or not (mesh.is_explicit or is_told((*jaxpr.in_avals, *types))):
        return given
    return [s or _told(aval, mesh) for s, aval in zip(given, types, strict=True)]
