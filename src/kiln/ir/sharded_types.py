"""Predicates on types that hold shardings (sharding in types)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

from kiln.base.errors import ShardingTypeError, three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.ir.shardings.mesh import Mesh
from kiln.ir.shardings.sums import NO_SUMS
from kiln.ir.types import ShardedArray


def has_sharding(avals: Iterable[Any]) -> bool:
    """Tell whether one of the types holds a sharding."""
    return any(type(aval) is ShardedArray for aval in avals)


def has_sums(avals: Iterable[Any]) -> bool:
    """Tell whether a type says that its array is unreduced or reduced along a mesh axis."""
    return any(type(aval) is ShardedArray and aval.sums != NO_SUMS for aval in avals)


def has_unreduced(aval: Any) -> TypeGuard[ShardedArray]:
    """Tell whether a type says that its array is a partial sum."""
    return type(aval) is ShardedArray and bool(aval.sums.unreduced)


def is_split_alike(a: Any, b: Any) -> bool:
    """Tell whether two types have the same sharding."""
    return not has_sharding((a, b)) or (a.split == b.split and a.sums == b.sums)


def mesh_of(avals: Iterable[Any]) -> Any:
    """Return the mesh of the sharded types.

    Raises: ShardingTypeError if there are several.
    """
    found: ShardedArray | None = None
    for aval in avals:
        if type(aval) is not ShardedArray:
            continue
        if found is None:
            found = aval
        elif not is_same_mesh(found.placing.mesh, aval.placing.mesh):
            raise ShardingTypeError(
                three_lines(
                    f"operands of types {found} and {aval} at {current_source()}",
                    f"Mesh for all inputs should be equal. Got one mesh: {found.placing.mesh} and "
                    f"another mesh: {aval.placing.mesh}",
                    "bring the operands to one mesh: kiln.device_put(x, NamedSharding(mesh, P()))",
                )
            )
    assert found is not None
    return found.placing.mesh


def is_same_mesh(a: Any, b: Any) -> bool:
    """Tell whether two meshes have the same axes: their devices may differ."""
    return a is b or (a.shape_tuple == b.shape_tuple and a.axis_types == b.axis_types)


def compiler_decides() -> bool:
    """Tell whether the mesh in force has axes, and none is Explicit, as inside `auto_axes`."""
    mesh: Mesh | None = options().mesh
    return mesh is not None and not mesh.is_explicit
