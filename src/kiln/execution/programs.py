"""What is compiled: a jaxpr without dead equations, and the options of the request.

Engines do not support sharded types: each value of such a type gets a sharding
constraint, and all types become plain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from kiln.base.options.config import options
from kiln.core.engines.engine import BATCH_INVARIANT, Placement, Program
from kiln.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from kiln.ir.operation import Operation
from kiln.ir.own_effects import check_lowerable
from kiln.ir.rewrite import drop_inputs, eliminate_dead_code
from kiln.ir.sharded_types import compiler_decides, has_sharding, has_unreduced
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding, Sharding
from kiln.ir.shardings.sums import NOWHERE, Varying
from kiln.ir.types import ShardedArray, plain, with_split


def program_of(
    jaxpr: Jaxpr,
    name: str,
    keep_unused: bool = False,
    compiler_options: tuple[tuple[str, Any], ...] = (),
    donated: tuple[int, ...] = (),
    placement: Placement | None = None,
    constants: int = 0,
) -> tuple[Program, list[int] | None]:
    """Drop dead code and, unless `keep_unused`, unused inputs; return which inputs remain.

    The first `constants` inputs are arrays that a function closes over.

    The program also gets the compiler options that kiln's options imply.
    """
    if options().batch_invariant:
        compiler_options = (*compiler_options, (BATCH_INVARIANT, True))
    if placement is not None and placement.mesh is not None:
        if any(s is not None and s.unreduced for s in placement.out_shardings):
            jaxpr = _leaving_parts(jaxpr, placement.out_shardings)
        jaxpr = without_sharded_types(jaxpr)
    clean, used = eliminate_dead_code(jaxpr)
    check_lowerable(name, clean.effects, 1 if placement is None else len(placement.devices))
    if keep_unused or all(used):
        return Program(clean, name, compiler_options, donated, placement, (), constants), None
    kept = [i for i, u in enumerate(used) if u]
    if placement is not None and placement.in_shardings:
        in_shardings = tuple([placement.in_shardings[i] for i in kept])
        placement = dataclasses.replace(placement, in_shardings=in_shardings)
    donated = tuple([n for n, i in enumerate(kept) if i in donated])
    constants = sum(used[:constants])
    rest = drop_inputs(clean, used)
    return Program(rest, name, compiler_options, donated, placement, (), constants), kept


def _leaving_parts(jaxpr: Jaxpr, shardings: Sequence[Any]) -> Jaxpr:
    """Return a program whose results are partial sums where shardings say so."""
    eqns, outvars = list(jaxpr.eqns), list(jaxpr.outvars)
    for i, (v, sharding) in enumerate(zip(outvars, shardings, strict=True)):
        if sharding is None or not sharding.unreduced or not isinstance(v, Var):
            continue
        if not has_unreduced(v.aval):
            outvars[i] = after = Var(v.aval)
            eqns.append(_constrained(None, v, after, sharding))
    return jaxpr.with_(eqns=eqns, outvars=outvars)


_constraint: Operation | None = None


def set_constraint(constraint: Operation) -> None:
    """Install the primitive that constrains a value to be sharded as its `sharding` says."""
    global _constraint
    _constraint = constraint


def without_sharded_types(jaxpr: Jaxpr) -> Jaxpr:
    """Return the program with constraints in place of sharded types."""
    found = jaxpr.memo.get(without_sharded_types)
    if found is None:
        found = jaxpr.memo[without_sharded_types] = (
            _rewritten(jaxpr) if _has_sharded_types(jaxpr) else jaxpr
        )
    return found


def _has_sharded_types(jaxpr: Jaxpr) -> bool:
    # Sharded types originate at inputs, and at operations that infer shardings: these include all
    # that hold programs.
    if has_sharding([v.aval for v in (*jaxpr.constvars, *jaxpr.invars)]):
        return True
    return any(
        has_sharding([v.aval for v in eqn.outvars]) or any(map(_has_sharded_types, _inside(eqn)))
        for eqn in jaxpr.eqns
        if eqn.primitive.infers_shardings
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
    eqns: list[Eqn] = []
    made_by: dict[Var, Eqn] = {}

    def constrain(v: Var, sharding: NamedSharding | None, eqn: Eqn | None) -> None:
        if sharding is not None and sharding.devices:
            before = env.get(v, v)
            env[v] = Var(before.aval)
            eqns.append(_constrained(eqn, before, env[v], sharding))

    # XLA does not propagate into inner programs, or out of them, that a value is a partial sum, and
    # would treat a reduced value as a partial sum.
    for v in (*jaxpr.constvars, *jaxpr.invars):
        if has_unreduced(v.aval):
            constrain(v, v.aval.placing, None)
    for eqn in jaxpr.eqns:
        given, stacked = eqn.params, eqn.primitive.first_stacked(eqn.params)
        if stacked is not None:
            rows = [
                x for x in eqn.invars[stacked[0] :] if isinstance(x, Var) and has_unreduced(x.aval)
            ]
            for v in rows:
                constrain(v, _whole(v.aval, v.aval.placing), eqn)  # type: ignore[attr-defined]
            if rows or any(has_unreduced(v.aval) for v in eqn.outvars[stacked[1] :]):
                given = {**given, "jaxpr": _added_up(given["jaxpr"], *stacked)}
        params = {name: _value(value) for name, value in given.items()}
        outvars = list(map(bound, eqn.outvars))
        primitive = eqn.primitive
        if primitive.infers_shardings and _asserts(params.get("sharding")):
            # A check of types, which has passed.
            assert _constraint is not None
            primitive = _constraint
        sharding = params.get("sharding")
        if primitive is _constraint and isinstance(sharding, NamedSharding) and sharding.unreduced:
            x = eqn.invars[0]
            if isinstance(x, Var) and not sharding.unreduced <= _sums_over(x, made_by):
                # XLA would treat a value that each device has whole as partial sums.
                constrain(x, _whole(x.aval, sharding), eqn)
        made_by.update(dict.fromkeys(eqn.outvars, eqn))
        invars = list(map(read, eqn.invars))
        eqns.append(eqn.with_(primitive=primitive, invars=invars, outvars=outvars, params=params))
        if primitive.region or primitive is _constraint:
            # The programs inside constrain their other results.
            for i, v in enumerate(eqn.outvars if primitive.region else ()):
                if has_unreduced(v.aval):
                    if stacked is not None and i >= stacked[1]:
                        constrain(v, _whole(v.aval, v.aval.placing), eqn)
                    constrain(v, v.aval.placing, eqn)
            continue
        mesh = _mesh_of_operands(eqn)
        for v in eqn.outvars:
            constrain(v, _sharding_of(v.aval, mesh), eqn)
    return jaxpr.with_(
        constvars=constvars, invars=binders, eqns=eqns, outvars=list(map(read, jaxpr.outvars))
    )


def _sums_over(x: Var, made_by: Mapping[Var, Eqn]) -> Varying:
    """Return the mesh axes along which a value is a partial sum."""
    while True:
        eqn = made_by.get(x)
        if has_unreduced(x.aval) or eqn is None or eqn.primitive.region:
            return x.aval.sums.unreduced
        splits = [_split_before(v, made_by) for v in eqn.invars]
        found = eqn.primitive.sums_over(splits, eqn.params)
        if found is not None:
            return found
        operand = eqn.invars[0]
        if not isinstance(operand, Var):
            return NOWHERE
        x = operand


def _split_before(x: Atom, made_by: Mapping[Var, Eqn]) -> Any:
    """Return the split in an operand's type before a cast left it to the compiler."""
    eqn = made_by.get(x) if isinstance(x, Var) else None
    is_cast = eqn is not None and eqn.primitive.name == "mesh_cast"
    return eqn.invars[0].aval.split if is_cast and eqn is not None else x.aval.split


def _whole(aval: Any, sharding: NamedSharding) -> NamedSharding:
    """Return the sharding of an array that is not a partial sum."""
    return sharding.update(spec=PartitionSpec(*aval.split))


def _added_up(jaxpr: Jaxpr, first_in: int, first_out: int) -> Jaxpr:
    """Return a program whose inputs and results, from these numbers on, are not partial sums.

    Engines slice them from stacks and write them to stacks, which they do not treat as partial
    sums.
    """
    key = (_added_up, first_in, first_out)
    found = jaxpr.memo.get(key)
    if found is None:
        invars, outvars = list(jaxpr.invars), list(jaxpr.outvars)
        eqns: list[Eqn] = []
        for i, v in enumerate(invars):
            if i >= first_in and has_unreduced(v.aval):
                whole = _whole(v.aval, v.aval.placing)
                invars[i] = given = Var(with_split(v.aval, whole.mesh, v.aval.split))
                added = Var(given.aval)
                eqns.append(_constrained(None, given, added, whole))
                eqns.append(_constrained(None, added, v, v.aval.placing))
        eqns += jaxpr.eqns
        for i, out in enumerate(outvars):
            if i >= first_out and isinstance(out, Var) and has_unreduced(out.aval):
                whole = _whole(out.aval, out.aval.placing)
                outvars[i] = added = Var(with_split(out.aval, whole.mesh, out.aval.split))
                eqns.append(_constrained(None, out, added, whole))
        found = jaxpr.memo[key] = jaxpr.with_(invars=invars, eqns=eqns, outvars=outvars)
    return found


def _mesh_of_operands(eqn: Eqn) -> Any:
    sharded = [v.aval for v in eqn.invars if type(v.aval) is ShardedArray]
    return sharded[0].placing.mesh if sharded and not eqn.primitive.infers_shardings else None


def _sharding_of(aval: Any, mesh: Any) -> NamedSharding | None:
    """Return the sharding that a value's type holds; None if the compiler decides.

    A result of operands over a mesh that nothing splits is replicated.
    """
    if type(aval) is ShardedArray:
        return aval.placing
    return None if mesh is None else NamedSharding(mesh, PartitionSpec(*[None] * len(aval.shape)))


def _asserts(sharding: Any) -> bool:
    return isinstance(sharding, NamedSharding) and sharding.mesh.are_all_axes_explicit


def _constrained(eqn: Eqn | None, before: Var, after: Var, sharding: NamedSharding) -> Eqn:
    assert _constraint is not None
    params = {"sharding": sharding}
    source = None if eqn is None else eqn.source
    return Eqn(_constraint, [before], [after], params, _constraint.effects(params), source)


def _value(value: Any) -> Any:
    if isinstance(value, Jaxpr):
        return without_sharded_types(value)
    if isinstance(value, ClosedJaxpr):
        inner = without_sharded_types(value.jaxpr)
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
    """Return the shardings of results: those `given` or, if types hold shardings, theirs."""
    types = jaxpr.out_avals
    if compiler_decides() or not (mesh.is_explicit or has_sharding((*jaxpr.in_avals, *types))):
        return given
    return [s or _sharding_of(aval, mesh) for s, aval in zip(given, types, strict=True)]
