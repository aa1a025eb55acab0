"""The shards of arrays that the members of a mesh hold, and all shards as one stack."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.trace import aval_of
from kiln.ir.effects import named_axis
from kiln.ir.ref_type import AbstractRef
from kiln.ir.shardings.abstract_mesh import AxisType
from kiln.ir.shardings.mesh import Mesh, PartitionSpec, axes_of
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.types import ShapedArray, ShardedArray, plain, typed
from kiln.ops.shape import reshape, transpose


def shard_counts(mesh: Mesh, spec: PartitionSpec, ndim: int) -> list[int]:
    """Return how many shards a spec splits each dimension into."""
    entries = [*spec, *[None] * (ndim - len(spec))]
    return [math.prod(mesh.shape[name] for name in axes_of(e)) for e in entries]


def part_type(aval: Any, mesh: Mesh, spec: PartitionSpec, inner: Mesh | None = None) -> Any:
    """Return the type of one member's shard, of an array or a reference to one.

    With `inner`, the mesh inside, it says which of its Explicit axes split the shard.
    """
    if isinstance(aval, AbstractRef):
        return AbstractRef(part_type(aval.inner_aval, mesh, spec, inner))
    parts = shard_counts(mesh, spec, aval.ndim)
    shape = tuple(n // p for n, p in zip(aval.shape, parts, strict=True))
    found = plain(aval).with_(shape=shape)
    if inner is None or not inner.is_explicit or type(aval) is not ShardedArray:
        return found
    return typed(found, aval.placing.update(mesh=inner))


def whole_type(
    aval: ShapedArray, mesh: Mesh, spec: PartitionSpec, manual_axes: Sequence[Any]
) -> ShapedArray:
    """Return the type of an array from that of one member's shard.

    Inside another `shard_map` it may vary along the axes of that one.
    """
    parts = shard_counts(mesh, spec, aval.ndim)
    shape = tuple(n * p for n, p in zip(aval.shape, parts, strict=True))
    whole = plain(aval).with_(shape=shape, varying=aval.varying.difference(manual_axes))
    if not mesh.is_explicit:
        return whole
    entries = [*spec, *[None] * (aval.ndim - len(spec))]
    # Axes that are not Manual may split shards further, as the types inside say.
    both = [(*axes_of(a), *axes_of(b)) for a, b in zip(entries, aval.split, strict=True)]
    return typed(whole, NamedSharding(mesh, PartitionSpec(*both)))


def mesh_inside(mesh: Mesh, manual_axes: Sequence[Any]) -> Mesh:
    """Return the mesh that is in force inside: some of its axes are Manual."""
    pairs = zip(mesh.axis_names, mesh.axis_types, strict=True)
    kinds = tuple(AxisType.Manual if name in manual_axes else kind for name, kind in pairs)
    return mesh if kinds == mesh.axis_types else mesh.update(axis_types=kinds)


def shard_names(spec: PartitionSpec) -> list[Any]:
    """Return the mesh axes that a spec names, in its order."""
    return [name for entry in spec for name in axes_of(entry)]


def shard_of(x: Any, mesh: Mesh, order: Sequence[Any], spec: PartitionSpec) -> Any:
    """Bring the mesh axes that shard an array to the front, in the order of the mesh."""
    names = shard_names(spec)
    if not names:
        return x
    local = part_type(aval_of(x), mesh, spec).shape
    shape, at, locals_at = _grid(mesh, spec, local)
    front = [at[name] for name in order if name in names]
    return transpose(reshape(x, shape), (*front, *locals_at))


def joined(x: Any, mesh: Mesh, order: Sequence[Any], spec: PartitionSpec) -> Any:
    """Undo `shard_of`."""
    names = shard_names(spec)
    if not names:
        return x
    local = aval_of(x).shape[len(names) :]
    shape, at, locals_at = _grid(mesh, spec, local)
    front = [at[name] for name in order if name in names]
    now = {place: i for i, place in enumerate((*front, *locals_at))}
    spread = transpose(x, tuple(now[i] for i in range(len(shape))))
    parts = shard_counts(mesh, spec, len(local))
    return reshape(spread, tuple(n * p for n, p in zip(local, parts, strict=True)))


def _grid(
    mesh: Mesh, spec: PartitionSpec, local: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[Any, int], list[int]]:
    """Return the shape with a dimension per mesh axis, and the positions of both kinds."""
    shape: list[Any] = []
    at: dict[Any, int] = {}
    locals_at = []
    for entry, size in zip([*spec, *[None] * (len(local) - len(spec))], local, strict=True):
        for name in axes_of(entry):
            at[name] = len(shape)
            shape.append(mesh.shape[name])
        locals_at.append(len(shape))
        shape.append(size)
    return tuple(shape), at, locals_at


def with_axis(spec: PartitionSpec, at: int | None, by: Any) -> PartitionSpec:
    """Return the spec of stacks whose new axis is split by the mesh axes `by`."""
    if at is None:
        return spec
    entries = list(spec) + [None] * (at - len(spec))
    return PartitionSpec(*entries[:at], by, *entries[at:])


def axes_to_split_by(
    spmd: Any,
    manual_axes: Sequence[Any],
    effects: Any,
    in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec],
) -> Any:
    """Return the mesh axes that split the examples of members, if all axes in `spmd` can.

    Members that communicate along an axis, such as those that sum their gradients, need the same
    examples; and residuals are split along all axes of the members.

    Raises: ValueError if a spec of an argument has one of the names.
    """
    names = () if spmd is None else axes_of(spmd)
    if not names or not set(names) <= set(manual_axes):
        return None
    taken = [s for s in (*in_specs, *out_specs) if not set(names).isdisjoint(_named(s))]
    if not taken:
        return None if any(named_axis(name) in effects for name in names) else spmd
    if all(len(s) > 0 and set(axes_of(s[0])) == set(manual_axes) for s in taken):
        return None
    raise ValueError(
        three_lines(
            f"shard_map under vmap(spmd_axis_name={spmd!r}) at {current_source()}",
            f"vmap spmd_axis_name cannot appear in shard_map in_specs or out_specs, got {spmd!r} "
            f"and in_specs={in_specs}, out_specs={out_specs}",
            "give the mapped axis another mesh axis",
        )
    )


def _named(spec: PartitionSpec) -> set[Any]:
    return {name for entry in spec for name in axes_of(entry)}
