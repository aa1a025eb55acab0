"""The keyword `out_sharding` of functions: how the result is to be sharded.

It names axes of a mesh whose shardings the program chooses (`AxisType.Explicit`); for others the
compiler does, so that naming them is an error.
"""

from __future__ import annotations

from typing import Any

from kiln.base.config import options
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.trace import aval_of
from kiln.ir.abstract_mesh import AbstractMesh, AxisType
from kiln.ir.mesh import UNCONSTRAINED, Mesh, PartitionSpec
from kiln.ir.sharding import NamedSharding, require_fit
from kiln.ops.sharding import put


def sharded(x: Any, out_sharding: Any, name: str) -> Any:
    """Return a result of the function `name`, sharded; unchanged if `out_sharding` is None.

    Raises: TypeError unless it is a NamedSharding or a PartitionSpec; ValueError for a
        PartitionSpec where no mesh is in force, for another mesh than that one, for axes that are
        not Explicit, and for an array that cannot be divided so.
    """
    if out_sharding is None:
        return x
    found = _resolved(out_sharding, name)
    if found is None:
        return x
    asked = f"{name} with out_sharding={found.spec} at {current_source()}"
    aval = aval_of(x)
    require_fit(found, aval.shape, asked)
    return put(x, found.for_rank(len(aval.shape)))


def on_device_or_sharded(x: Any, device: Any, out_sharding: Any, name: str) -> Any:
    """Return a result of the function `name` on a device, or sharded.

    Raises: ValueError if both are given; what `sharded` raises.
    """
    if out_sharding is None:
        return put(x, device)
    if device is not None:
        raise ValueError(
            three_lines(
                f"{name} with device={device} and out_sharding={out_sharding} at "
                f"{current_source()}",
                "Only one of `device` or `out_sharding` can be set",
                "leave one of them out",
            )
        )
    return sharded(x, out_sharding, name)


def _resolved(given: Any, name: str) -> NamedSharding | None:
    asked = f"{name} with out_sharding={given!r:.100} at {current_source()}"
    if not isinstance(given, (NamedSharding, PartitionSpec)):
        raise TypeError(
            three_lines(
                asked,
                f"`out_sharding` argument of {name} only supports instances of `NamedSharding` or "
                f"`PartitionSpec`. Got {given!r:.100} of type: {type(given)}",
                "write PartitionSpec('x') under a mesh in force: with kiln.set_mesh(mesh): ...",
            )
        )
    mesh = options().mesh
    if isinstance(given, NamedSharding):
        if given.mesh.empty:
            return None
        sharding = given
        if mesh is not None and _axes(mesh) != _axes(given.mesh):
            raise ValueError(
                three_lines(
                    asked,
                    f"Context mesh {mesh} should match the mesh of sharding {given.mesh} passed "
                    f"to {name}",
                    "give a PartitionSpec, which is over the mesh in force",
                )
            )
    elif mesh is None:
        raise ValueError(
            three_lines(
                asked,
                "Using PartitionSpec when you are not under a mesh context is not allowed",
                "pass a NamedSharding, or set a mesh: with kiln.set_mesh(mesh): ...",
            )
        )
    else:
        sharding = NamedSharding(mesh, given)
    _require_explicit(sharding, name, asked)
    return sharding


def _axes(mesh: Mesh | AbstractMesh) -> Any:
    return mesh.shape_tuple, tuple(mesh.axis_types)


def _require_explicit(sharding: NamedSharding, name: str, asked: str) -> None:
    mesh = sharding.mesh
    kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    for entry in sharding.spec:
        if entry is None or entry is UNCONSTRAINED:
            continue
        for axis in entry if isinstance(entry, tuple) else (entry,):
            if kinds[axis] is not AxisType.Explicit:
                raise ValueError(
                    three_lines(
                        asked,
                        f"PartitionSpec passed to {name} cannot contain axis names that are of "
                        f"type Auto or Manual. Got PartitionSpec: {sharding.spec} with axis name: "
                        f"{axis} of type: {kinds[axis]}",
                        "make the mesh with axis_types=(AxisType.Explicit, ...); for Auto axes "
                        "write lax.with_sharding_constraint(x, sharding)",
                    )
                )
