"""Cases of constraints on where values live."""

from __future__ import annotations

import kiln
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ops import sharding as ops
from kiln.ops.sharding import mesh_cast_p, reshard_p
from tests.cases.case import Case, Operand

MESH = Mesh(kiln.devices()[:2], "x")


def _constraint(named: int, *entries: str | None) -> Case:
    sharding = NamedSharding(MESH, PartitionSpec(*entries))
    return Case(
        ops.sharding_constraint_p,
        lambda x: ops.with_sharding_constraint(x, sharding),
        (Operand((4, 2)),),
        differentiable=(0,),
        named=((0, named),),
    )


def _reshard(named: int, *entries: str | None) -> Case:
    sharding = NamedSharding(MESH, PartitionSpec(*entries))
    return Case(
        reshard_p,
        lambda x: reshard_p.bind(x, sharding=sharding),
        (Operand((4, 2)),),
        differentiable=(0,),
        named=((0, named),),
    )


CASES = [
    _constraint(1, "x"),
    _constraint(0, None, "x"),
    _constraint(0),
    _reshard(1, "x"),
    _reshard(0, None, "x"),
    Case(
        mesh_cast_p,
        mesh_cast_p.bind,
        (Operand((4, 2)),),
        differentiable=(0,),
        named=((0, 0),),
    ),
]
