"""The program of one device of a mesh: a manual computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.control.sharded_regions.shard_map import expanded, shard_map_p
from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value, is_ordered
from kiln.engines.xla.stablehlo.partition import Manual
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.types import ShapedArray


def _shard_map(
    b: Builder,
    out: Sequence[ShapedArray],
    *xs: Value,
    jaxpr: Jaxpr,
    mesh: Mesh,
    manual_axes: tuple[Any, ...],
    in_specs: tuple[PartitionSpec, ...],
    out_specs: tuple[PartitionSpec, ...],
    check_vma: bool,
) -> list[Value]:
    partition = b.module.partition
    alone = partition.count == 1
    free = len(manual_axes) < len(mesh.axis_names)
    # If some axes are automatic, XLA orders the devices of a group by number.
    turned = free and not alone and partition.numbers(mesh) != sorted(partition.numbers(mesh))
    # Ordered effects need one order for all devices, which only the program of all devices has.
    if alone or turned or partition.manual or is_ordered(jaxpr):
        params = {
            "jaxpr": jaxpr,
            "mesh": mesh,
            "manual_axes": manual_axes,
            "in_specs": in_specs,
            "out_specs": out_specs,
            "check_vma": check_vma,
        }
        return b.inline(expanded(params), xs)

    def shardings(avals: Sequence[ShapedArray], specs: Sequence[PartitionSpec]) -> str:
        bodies = [
            partition.body(NamedSharding(mesh, spec), aval.ndim, open_dims=free)
            for aval, spec in zip(avals, specs, strict=True)
        ]
        return f"#sdy.sharding_per_value<[{', '.join(bodies)}]>"

    with partition.inside(Manual(mesh, manual_axes)):
        region = b.region(
            jaxpr.in_avals, lambda inner, *ys: inner.inline(jaxpr, ys), end="sdy.return"
        )
    names = ", ".join(f'"{name}"' for name in manual_axes)
    attrs = (
        f"in_shardings = {shardings([x.aval for x in xs], in_specs)}, "
        f"manual_axes = #sdy<manual_axes{{{names}}}>, "
        f"out_shardings = {shardings(out, out_specs)}"
    )
    outs: list[Value] = b.op("sdy.manual_computation", xs, list(out), attrs, regions=[region])
    return outs


LOWERINGS: dict[Primitive, Lowering] = {shard_map_p: _shard_map}
