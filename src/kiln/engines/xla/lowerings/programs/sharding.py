"""Constraints on the shardings of values."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value, type_of
from kiln.ir.shardings.mesh import axes_of
from kiln.ir.shardings.sharding import NamedSharding, Sharding, fitted
from kiln.ir.types import ShapedArray
from kiln.ops import sharding as ops
from kiln.ops.sharding import reshard_p


def _sharding_constraint(
    b: Builder, out: Sequence[ShapedArray], x: Value, *, sharding: Sharding
) -> Value:
    partition = b.module.partition
    if partition.count == 1 or partition.manual:
        return x
    if isinstance(sharding, NamedSharding) and not sharding.devices:
        sharding = partition.over_devices(sharding)
    body = partition.body(fitted(sharding, x.aval.shape), x.ndim)
    result: Value = b.emit(f"sdy.sharding_constraint {x} {body} : {type_of(x.aval)}", x.aval)
    return result


def _reshard(b: Builder, out: Sequence[ShapedArray], x: Value, *, sharding: NamedSharding) -> Value:
    partition = b.module.partition
    if partition.count == 1 or partition.manual:
        return x
    # The compiler may shard further along axes that types do not mention.
    mesh = sharding.mesh
    named = {name for entry in sharding.spec for name in axes_of(entry)} | sharding.unreduced
    is_free = not mesh.are_all_axes_explicit
    whole = set(mesh.explicit_axes) - named if is_free else ()
    body = partition.body(sharding, x.ndim, open_dims=is_free, whole=whole)
    result: Value = b.emit(f"sdy.sharding_constraint {x} {body} : {type_of(x.aval)}", x.aval)
    return result


LOWERINGS: dict[Primitive, Lowering] = {
    ops.sharding_constraint_p: _sharding_constraint,
    reshard_p: _reshard,
}
