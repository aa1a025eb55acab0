"""Collective operations of the processes of a program. With one process they are trivial.

All processes must call them, in the same order and with the same shapes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import kiln.numpy as jnp
from kiln import lax
from kiln.api.arrays import device_put, local_devices, make_array_from_single_device_arrays
from kiln.api.arrays import devices as all_devices
from kiln.api.jit import jit
from kiln.api.sharding.process_arrays import global_shape_of
from kiln.api.sharding.shard_map import shard_map
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.process.identity import processes
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import broadcast_prefix, tree_flatten, tree_map, tree_unflatten
from kiln.core.arrays.array import ConcreteArray
from kiln.core.processes.peers import peers
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding

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


@functools.lru_cache(1)
def _one_each() -> Mesh:
    """Return a mesh of the first device of each process, in order."""
    firsts = [local_devices(index)[0] for index in range(processes().count)]
    return Mesh(np.array(firsts, dtype=object), "processes")


def _shared(value: np.ndarray) -> Any:
    """Return the values of all processes, stacked, as one array sharded over them."""
    mesh = _one_each()
    here = local_devices()[0]
    part = device_put(value[None], here)
    shape = (mesh.size, *value.shape)
    sharding = NamedSharding(mesh, PartitionSpec("processes"))
    return make_array_from_single_device_arrays(shape, sharding, [part])


def _replicated(x: Any, mesh: Mesh) -> np.ndarray:
    whole = device_put(x, NamedSharding(mesh, PartitionSpec()))
    return np.asarray(whole.addressable_data(0))


def _on_host(x: Any) -> np.ndarray:
    found = np.asarray(x)
    return np.asarray(found, dtypes.canonicalize_dtype(found.dtype))


def _stacked(value: np.ndarray) -> np.ndarray:
    """Return the values of all processes, stacked, in each of them."""
    if processes().count == 1:
        return value[None]
    return _replicated(_shared(value), _one_each())


@functools.lru_cache(8)
def _broadcast_from(source: int) -> Callable[[list[Any]], list[Any]]:
    """Return the program that copies arrays from one process to all, along a tree.

    In each round the processes that have the arrays send them to as many others, so that there are
    log2(n) rounds, and each process receives its arrays once.
    """
    mesh = _one_each()
    count, axis = mesh.size, mesh.axis_names[0]

    def copied(xs: list[Any]) -> list[Any]:
        place = (lax.axis_index(axis) - source) % count
        have = 1
        while have < count:
            more = range(min(have, count - have))
            pairs = [((i + source) % count, (i + have + source) % count) for i in more]
            is_new = (place >= have) & (place < 2 * have)
            # Copies: a sum with zeros would change negative zeros.
            sent = [lax.ppermute(x, axis, pairs) for x in xs]
            xs = [lax.select(jnp.full(x.shape, is_new), y, x) for x, y in zip(xs, sent)]
            have *= 2
        return xs

    rows = PartitionSpec(axis)
    return jit(shard_map(copied, mesh=mesh, in_specs=rows, out_specs=rows))


def _sent(values: list[np.ndarray], source: int) -> list[np.ndarray]:
    """Return the values of one process, in all of them."""
    if processes().count == 1 or not values:
        return values
    found = _broadcast_from(source)([_shared(value) for value in values])
    return [np.asarray(x.addressable_data(0))[0] for x in found]


@api_boundary
def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """Return the arrays of the source, by default process 0, on the host of every process.

    Arrays have the same shapes in all processes. Exactly one process passes `is_source=True`.

    Raises: ValueError, in all processes, if another number of them does; PeerError if one fails.
    """
    others = peers()
    if others is None:
        return tree_map(np.asarray, in_tree)
    leaves, tree = tree_flatten(in_tree)
    source = 0
    if is_source is not None:
        asked = f"broadcast_one_to_all with is_source={is_source} at {current_source()}"
        said = others.meet_again("broadcast_one_to_all", asked, str(int(bool(is_source))))
        sources = said.get("1", ())
        if len(sources) != 1:
            wrong = f"exactly one process is the source, and these are: {list(sources)}"
            remedy = "pass is_source=kiln.process_index() == 0"
            raise ValueError(three_lines(asked, wrong, remedy))
        source = sources[0]
    return tree_unflatten(tree, _sent([_on_host(x) for x in leaves], source))


@api_boundary
def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Return the arrays of all processes on the host of each: stacked, or joined if `tiled`.

    For an array sharded over several processes it returns the whole value; this requires `tiled`.

    Raises: ValueError for such an array without `tiled`.
    """

    def gathered(x: Any) -> Any:
        if _is_elsewhere(x):
            if not tiled:
                raise ValueError(
                    three_lines(
                        f"process_allgather of an array {x.aval} at {current_source()}",
                        "Gathering global non-fully-addressable arrays only supports tiled=True",
                        "write process_allgather(x, tiled=True)",
                    )
                )
            return np.asarray(_replicated_like(x))
        if processes().count == 1:
            found = np.asarray(x)
            return found if tiled and found.ndim else found[None]
        found = _stacked(_on_host(x))
        return found.reshape(-1, *found.shape[2:]) if tiled and found.ndim > 1 else found

    return tree_map(gathered, in_tree)


def _replicated_like(x: ConcreteArray) -> Any:
    sharding = x.sharding
    if isinstance(sharding, NamedSharding):
        whole = NamedSharding(sharding.mesh, PartitionSpec())
    else:
        whole = NamedSharding(Mesh(sharding.devices, "devices"), PartitionSpec())
    return device_put(x, whole).addressable_data(0)


@api_boundary
def sync_global_devices(name: str) -> None:
    """Wait until all processes have called this with the same name.

    Raises: AssertionError if the names differ; PeerError if a process has failed, or is late for
        longer than `KILN_COLLECTIVE_TIMEOUT`.
    """
    others = peers()
    if others is None:
        return
    asked = f"sync_global_devices({name!r}) at {current_source()}"
    said = list(others.meet_again("sync_global_devices", asked, name))
    if len(said) > 1:
        wrong = f"sync_global_devices name mismatch ('{name}')"
        raise AssertionError(f"{wrong}. Expected: {said[0]}; got: {', '.join(said[1:])}.")


@api_boundary
def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Check that all processes have the same arrays; nans are unequal.

    Raises: AssertionError, in all processes.
    """
    values = [
        _on_host(_replicated_like(x) if _is_elsewhere(x) else x) for x in tree_flatten(in_tree)[0]
    ]
    expected = _sent(values, 0)
    differs = [not np.all(np.equal(a, b)) for a, b in zip(values, expected, strict=True)]
    others = peers()
    said: dict[str, tuple[int, ...]] = {"1" if any(differs) else "0": (processes().index,)}
    if others is not None:
        said = others.meet_again("assert_equal", f"assert_equal at {current_source()}", *said)
    if "1" in said:
        at = differs.index(True) if any(differs) else 0
        ranks = ", ".join(map(str, said["1"]))
        raise AssertionError(
            f"{fail_message}. Expected: {expected[at]}; got: {values[at]}; different in the "
            f"processes {ranks}."
        )


def _is_elsewhere(x: Any) -> bool:
    return isinstance(x, ConcreteArray) and not x.is_fully_addressable


@api_boundary
def reached_preemption_sync_point(step_id: int) -> bool:
    """Tell whether to save and end at this step: a process has received SIGTERM.

    All processes call it in every step. From the first call on SIGTERM does not end a process; it
    makes the call return True in all processes, for the same `step_id`. With one process it is
    False, and SIGTERM keeps its meaning.

    Raises: PeerError if a process has failed.
    Example:
        >>> from kiln.experimental import multihost_utils
        >>> multihost_utils.reached_preemption_sync_point(1)
        False
    """
    others = peers()
    if others is None:
        return False
    link = others.link
    asked = f"reached_preemption_sync_point({step_id}) at {current_source()}"
    return others.guarded_call(lambda: link.is_preempted_at(step_id), asked)


def live_devices(devices: Any) -> Any:
    """Return a context whose value is the list of reachable devices: all, until one fails."""
    return _Live(list(all_devices() if devices is None else devices))


class _Live:
    def __init__(self, devices: list[Any]) -> None:
        self._devices = devices

    def __enter__(self) -> list[Any]:
        return self._devices

    def __exit__(self, *error: object) -> None:
        return None


def _specs(pspecs: Any, tree: Any, asked: str) -> Sequence[Any]:
    found = broadcast_prefix(pspecs, tree, is_leaf=lambda s: s is None)
    if None in found:
        raise ValueError(
            three_lines(
                f"{asked} with pspecs={pspecs} at {current_source()}",
                "`None` is not a valid input to the pspecs argument",
                "write PartitionSpec() for an array that is the same in all processes",
            )
        )
    return found


@api_boundary
def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Return arrays over the mesh, for which each process provides the part on its own devices.

    An axis that is not sharded over processes is passed whole, with equal values in all.

    Raises: ValueError if the devices of a process are not a block of the mesh.
    """
    leaves, tree = tree_flatten(local_inputs)
    specs = _specs(pspecs, local_inputs, "host_local_array_to_global_array")
    made = [_to_global(x, global_mesh, s) for x, s in zip(leaves, specs, strict=True)]
    return tree_unflatten(tree, made)


def _to_global(x: Any, mesh: Mesh, spec: Any) -> Any:
    if _is_elsewhere(x):
        return x
    whole = NamedSharding(mesh, spec)
    here = device_put(x, NamedSharding(mesh.local_mesh, spec))
    if not mesh.is_multi_process:
        return here
    asked = f"host_local_array_to_global_array of an array {here.aval}"
    parts = {shard.device: shard.data for shard in here.addressable_shards}
    ordered = [parts[whole.devices[i]] for i in whole.addressable_order]
    shape = global_shape_of(whole, here.shape, asked)
    return make_array_from_single_device_arrays(shape, whole, ordered)


@api_boundary
def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Return this process's part of arrays over the mesh, as arrays on its own devices.

    Raises: ValueError if the devices of a process are not a block of the mesh.
    """
    leaves, tree = tree_flatten(global_inputs)
    specs = _specs(pspecs, global_inputs, "global_array_to_host_local_array")
    made = [_to_local(x, global_mesh, s) for x, s in zip(leaves, specs, strict=True)]
    return tree_unflatten(tree, made)


def _to_local(x: Any, mesh: Mesh, spec: Any) -> Any:
    if not isinstance(x, ConcreteArray) or x.is_fully_addressable:
        return x
    whole, here = NamedSharding(mesh, spec), NamedSharding(mesh.local_mesh, spec)
    x = device_put(x, whole)
    parts = {shard.device: shard.data for shard in x.addressable_shards}
    sizes, counts = whole.shard_shape(x.shape), here.blocks(x.ndim).parts
    shape = tuple(n * count for n, count in zip(sizes, counts, strict=True))
    ordered = [parts[device] for device in here.devices]
    return make_array_from_single_device_arrays(shape, here, ordered)
