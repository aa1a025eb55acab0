"""What processes of one program do together. There is one process, which agrees with itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.api.arrays import device_put
from kiln.api.arrays import devices as all_devices
from kiln.base.tree import broadcast_prefix, tree_flatten, tree_map, tree_unflatten
from kiln.ir.mesh import Mesh
from kiln.ir.sharding import NamedSharding

__all__ = [
    "assert_equal",
    "broadcast_one_to_all",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
    "live_devices",
    "process_allgather",
    "reached_preemption_sync_point",
    "sync_global_devices",
]


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """Return the source's arrays, which are this process's, on the host."""
    return tree_map(np.asarray, in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Return the arrays of all processes, on the host: stacked, or joined if `tiled`."""

    def gathered(x: Any) -> Any:
        found = np.asarray(x)
        return found if tiled and found.ndim else found[None]

    return tree_map(gathered, in_tree)


def sync_global_devices(name: str) -> None:
    """Wait for all processes: there is one."""


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Check that all processes have the same arrays; a nan differs from itself.

    Raises: AssertionError.
    """
    for x in tree_flatten(in_tree)[0]:
        found = np.asarray(x)
        if not np.all(np.equal(found, found)):
            raise AssertionError(f"{fail_message}. Expected: {found}; got: {found}.")


def reached_preemption_sync_point(step_id: int) -> bool:
    """Tell whether the processes are about to be stopped: nothing stops them."""
    return False


def live_devices(devices: Any) -> Any:
    """Return a context whose value are the devices that are reachable, which all are."""
    return _Live(list(all_devices() if devices is None else devices))


class _Live:
    def __init__(self, devices: list[Any]) -> None:
        self._devices = devices

    def __enter__(self) -> list[Any]:
        return self._devices

    def __exit__(self, *error: object) -> None:
        return None


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Return the arrays of this process, which are whole, sharded over the mesh."""
    leaves, tree = tree_flatten(local_inputs)
    specs = broadcast_prefix(pspecs, local_inputs, is_leaf=lambda s: s is None)
    placed = [
        device_put(x, NamedSharding(global_mesh, () if spec is None else spec))
        for x, spec in zip(leaves, specs, strict=True)
    ]
    return tree_unflatten(tree, placed)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Return this process's part of sharded arrays: all of them."""
    return global_inputs
