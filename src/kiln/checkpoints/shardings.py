"""Shardings as JSON, and back if the same devices exist."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from kiln.api.arrays import devices
from kiln.base.process.identity import process_count
from kiln.ir.shardings.abstract_mesh import AxisType
from kiln.ir.shardings.mesh import UNCONSTRAINED, Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding, Sharding, SingleDeviceSharding, named_like


def described(sharding: Sharding, ndim: int) -> dict[str, Any]:
    """Return a description of a sharding that can be written as JSON.

    `ndim` is the number of axes of the array.
    """
    if isinstance(sharding, SingleDeviceSharding):
        return {"device": _device(sharding.devices[0])}
    if not _is_plain(sharding):
        sharding = named_like(sharding.devices, sharding.blocks(ndim), None)
    assert isinstance(sharding, NamedSharding)
    mesh = sharding.mesh
    return {
        "axes": [[name, size] for name, size in mesh.shape.items()],
        "types": [kind.name for kind in mesh.axis_types],
        "devices": [_device(device) for device in mesh.flat],
        "spec": [list(e) if isinstance(e, tuple) else e for e in sharding.spec],
    }


def _is_plain(sharding: Sharding) -> bool:
    """Tell whether JSON can represent all names in a sharding."""
    return (
        isinstance(sharding, NamedSharding)
        and all(isinstance(name, str) for name in sharding.mesh.axis_names)
        and UNCONSTRAINED not in tuple(sharding.spec)
    )


def _device(device: Any) -> str:
    return f"{device.platform}:{device.id}"


def require_description(description: Any) -> None:
    """Check that a value describes a sharding, on any devices.

    Raises: ValueError.
    """
    if not isinstance(description, dict) or not (
        _is_device(description) if "device" in description else _is_mesh(description)
    ):
        raise ValueError(f"{description!r:.80} does not describe a sharding")


def _is_device(description: dict[str, Any]) -> bool:
    return set(description) == {"device"} and isinstance(description["device"], str)


def _is_mesh(description: dict[str, Any]) -> bool:
    parts = [description.get(name) for name in ("axes", "types", "devices", "spec")]
    if len(description) != len(parts) or not all(isinstance(part, list) for part in parts):
        return False
    axes, types, names, spec = cast(list[list[Any]], parts)
    if not all(
        isinstance(axis, list)
        and [type(each) for each in axis] == [str, int]
        and 0 < axis[1] <= len(names)
        for axis in axes
    ):
        return False
    known = [name for name, _ in axes]
    used = [name for each in spec for name in (each if isinstance(each, list) else [each])]
    used = [name for name in used if name is not None]
    return (
        all(isinstance(name, str) for name in (*types, *names, *used))
        and len(types) == len(axes)
        and set(types) <= set(AxisType.__members__)
        and math.prod([size for _, size in axes]) == len(names) == len(set(names))
        and len(set(known)) == len(known)
        and len(set(used)) == len(used)
        and set(used) <= set(known)
        and not any(isinstance(each, list) and None in each for each in spec)
    )


def fits(description: dict[str, Any], shape: Sequence[int]) -> bool:
    """Tell whether an array of a shape can have the sharding of a description."""
    if "device" in description:
        return True
    sizes, spec = dict(description["axes"]), description["spec"]
    if len(spec) > len(shape):
        return False
    for size, entry in zip(shape, spec, strict=False):
        names = entry if isinstance(entry, list) else [] if entry is None else [entry]
        if size % math.prod([sizes[name] for name in names]):
            return False
    return True


def rebuilt_sharding(description: dict[str, Any]) -> Sharding | None:
    """Return the sharding of a description, or None if some of its devices do not exist here."""
    if "device" in description:
        found = _here([description["device"]])
        return None if found is None else SingleDeviceSharding(found[0])
    found = _here(description["devices"])
    if found is None:
        return None
    grid = np.empty(len(found), dtype=object)
    grid[:] = found
    names = [name for name, _ in description["axes"]]
    grid = grid.reshape([size for _, size in description["axes"]])
    mesh = Mesh(grid, names, tuple(AxisType[kind] for kind in description["types"]))
    spec = [tuple(e) if isinstance(e, list) else e for e in description["spec"]]
    return NamedSharding(mesh, PartitionSpec(*spec))


class Rebuilder:
    """Rebuilds shardings, each once for all leaves that share its description."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[dict[str, Any], Sharding | None]] = {}

    def sharding(self, description: dict[str, Any]) -> Sharding | None:
        """Return the sharding of a description, or None if some of its devices do not exist here.

        The same object is recognized by its address.
        """
        found = self._known.get(id(description))
        if found is None:
            found = self._known[id(description)] = description, rebuilt_sharding(description)
        return found[1]


def _here(names: Sequence[str]) -> list[Any] | None:
    known = {_device(device): device for device in devices()}
    found = [known[name] for name in names if name in known]
    if len(found) != len(names):
        return None
    # Every process must hold a shard of what it restores.
    owners = {device.process_index for device in found}
    return found if len(owners) == process_count() else None


def device_count_of(description: dict[str, Any]) -> int:
    """Return the number of devices in the description of a sharding."""
    return len(description.get("devices", (0,)))
