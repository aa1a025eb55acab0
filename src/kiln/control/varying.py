"""Along which mesh axes the members of a mapped program may hold different values.

A value varies along what its operands vary along. Sums and extremes over an axis are the same for
all of it; a member's position is not. Carries of loops are followed until they settle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.control.cond import cond_p
from kiln.control.scan import scan_p
from kiln.control.shard_map import shard_map_p
from kiln.control.while_loop import while_p
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ops.collective import Collective, Reduction

Varying = frozenset[Any]
NOWHERE: Varying = frozenset()


def varying_outputs(jaxpr: Jaxpr, inputs: Sequence[Varying]) -> list[Varying]:
    """Return the axes along which each output may vary, given the same of the inputs."""
    env: dict[Var, Varying] = dict(zip(jaxpr.invars, inputs, strict=True))

    def read(atom: Any) -> Varying:
        return NOWHERE if atom.is_literal else env[atom]

    for eqn in jaxpr.eqns:
        env.update(zip(eqn.outvars, _after(eqn, [read(v) for v in eqn.invars]), strict=True))
    return [read(v) for v in jaxpr.outvars]


def _after(eqn: Eqn, operands: Sequence[Varying]) -> Sequence[Varying]:
    params = eqn.params
    if eqn.primitive is scan_p:
        return _after_scan(operands, **params)
    if eqn.primitive is while_p:
        return _after_while(operands, **params)
    if eqn.primitive is cond_p:
        index, *rest = operands
        outs = [varying_outputs(branch, rest) for branch in params["branches"]]
        return [index.union(*each) for each in zip(*outs, strict=True)]
    inner = params.get("jaxpr", params.get("call_jaxpr"))
    if eqn.primitive is not shard_map_p and isinstance(inner, Jaxpr):
        return varying_outputs(inner, operands)
    found = NOWHERE.union(*operands)
    if isinstance(eqn.primitive, Reduction):
        found -= set(eqn.primitive.names(params))
    elif isinstance(eqn.primitive, Collective):
        found |= set(eqn.primitive.names(params))
    return [found] * len(eqn.outvars)


def _after_scan(
    operands: Sequence[Varying], jaxpr: Jaxpr, num_consts: int, num_carry: int, **_: Any
) -> list[Varying]:
    end = num_consts + num_carry
    consts, carry, xs = operands[:num_consts], operands[num_consts:end], operands[end:]
    ys: list[Varying] = []

    def body(carry: Sequence[Varying]) -> list[Varying]:
        outs = varying_outputs(jaxpr, [*consts, *carry, *xs])
        ys[:] = outs[num_carry:]
        return outs[:num_carry]

    return [*_settled(body, carry), *ys]


def _after_while(
    operands: Sequence[Varying],
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
) -> list[Varying]:
    end = cond_nconsts + body_nconsts
    tested, consts, carry = operands[:cond_nconsts], operands[cond_nconsts:end], operands[end:]

    def body(carry: Sequence[Varying]) -> list[Varying]:
        # Members that go round more often than others hold something else in the end.
        (again,) = varying_outputs(cond_jaxpr, [*tested, *carry])
        return [again | out for out in varying_outputs(body_jaxpr, [*consts, *carry])]

    return _settled(body, carry)


def _settled(
    body: Callable[[Sequence[Varying]], list[Varying]], carry: Sequence[Varying]
) -> list[Varying]:
    now = list(carry)
    while True:
        after = [a | b for a, b in zip(now, body(now), strict=True)]
        if after == now:
            return now
        now = after
