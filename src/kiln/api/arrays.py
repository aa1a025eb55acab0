"""Waiting for arrays, moving them, assembling them from shards; listing devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from kiln import _runtime, monitoring
from kiln.base import dtypes
from kiln.base.errors import one_line, three_lines
from kiln.base.keywords import known_keywords
from kiln.base.process.identity import freeze_processes, processes
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import broadcast_prefix, prefix_errors, tree_flatten, tree_map, tree_unflatten
from kiln.core.array_type import Array
from kiln.core.arrays.array import ConcreteArray, from_host, host_value
from kiln.core.arrays.placement import joined
from kiln.core.arrays.shards import require_part
from kiln.core.arrays.transfers import explicit
from kiln.core.engines.engine import default_engine
from kiln.core.trace import Tracer, aval_of, require_unmasked
from kiln.execution.compilation import as_array
from kiln.ir.shardings.sharding import (
    Index,
    Sharding,
    require_fit,
)
from kiln.ir.types import ShapedArray
from kiln.ops.sharding import put, without_layout

T = TypeVar("T")

TO_DEVICE, FROM_DEVICE = "/kiln/transfer/device_put", "/kiln/transfer/device_get"
"""Time spans that listeners of `kiln.monitoring` are told of, by the clock `time.perf_counter`."""

PLUGINS = {
    "gpu": "pip install jax-cuda13-pjrt, on a machine with an NVIDIA GPU",
    "cuda": "pip install jax-cuda13-pjrt, on a machine with an NVIDIA GPU",
    "tpu": "pip install libtpu, on a machine with a TPU",
}


def block_until_ready(tree: T) -> T:
    """Wait until all arrays of a pytree have been computed, and return it.

    Other leaves are ignored. Call it when timing code: calls return before their results are ready.

    Example:
        >>> x = kiln.block_until_ready(jnp.ones(3) * 2)
        >>> x
        Array([2., 2., 2.], dtype=float32)
        >>> kiln.block_until_ready({"a": x, "b": 1})["a"] is x
        True
    """
    if isinstance(tree, ConcreteArray):
        return tree.block_until_ready()  # type: ignore[return-value]
    return tree_map(lambda x: x.block_until_ready() if hasattr(x, "block_until_ready") else x, tree)  # type: ignore[no-any-return]


@api_boundary
@explicit
@known_keywords
def device_put(
    x: T,
    device: Any = None,
    *,
    src: Any = None,
    donate: bool = False,
    may_alias: bool | None = None,
) -> T:
    """Put the arrays of a pytree on a device, or shard them over several.

    `device` is a device, a sharding, or a pytree prefix of these. Such arrays are committed:
    programs run where they are. With None they stay uncommitted. If `donate`, arrays that are moved
    are deleted; with `may_alias=False`, arrays that are there already are copied. `src` is ignored:
    arrays know where they are.

    Raises: ValueError for an array that cannot be sharded this way, or if both `donate` and
        `may_alias`; TypeError if `device` is
        neither a device nor a sharding.
    Example:
        >>> x = kiln.device_put(jnp.arange(3), kiln.devices()[0])
        >>> x.committed
        True
        >>> kiln.device_put({"a": np.ones(2), "b": 3})
        {'a': Array([1., 1.], dtype=float32), 'b': Array(3, dtype=int32, weak_type=True)}
    """
    if donate and may_alias:
        raise ValueError(
            three_lines(
                f"device_put(..., donate=True, may_alias=True) at {current_source()}",
                "may_alias and donate cannot be True at the same time.",
                "leave one of them out",
            )
        )
    start = time.perf_counter()
    leaves, tree = tree_flatten(x)
    places = _places(device, x)
    arrays = [leaf if isinstance(leaf, Tracer) else as_array(leaf) for leaf in leaves]
    moved = [put(x, place) for x, place in zip(arrays, places, strict=True)]
    if may_alias is False:
        moved = [
            after.copy() if after is before and isinstance(after, ConcreteArray) else after
            for before, after in zip(arrays, moved, strict=True)
        ]
    if donate:
        for before, after in zip(leaves, moved, strict=True):
            if isinstance(before, ConcreteArray) and after is not before:
                before.block_until_ready()
                if before.sharding != after.sharding:
                    before.delete()
    end = time.perf_counter()
    monitoring.record_event_time_span(TO_DEVICE, start, end, arrays=len(leaves))
    return tree_unflatten(tree, moved)  # type: ignore[no-any-return]


def _is_none(x: Any) -> bool:
    return x is None


def _places(device: Any, x: Any) -> list[Any]:
    try:
        return broadcast_prefix(device, x, is_leaf=_is_none)
    except ValueError:
        wrong = prefix_errors(device, x, _is_none, "device")
        raise ValueError(
            three_lines(
                f"device_put at {current_source()}",
                "device_put device specification must be a tree prefix of the corresponding value; "
                f"Mismatch details ({len(wrong)} found): {'; '.join(map(one_line, wrong))}",
                "give one device or sharding for all, or a tree of them with the same containers",
            )
        ) from None


def device_get(x: Any) -> Any:
    """Convert the arrays of a pytree to NumPy arrays; random keys are returned as they are.

    Example:
        >>> kiln.device_get({"a": jnp.arange(3)})
        {'a': array([0, 1, 2], dtype=int32)}
    """
    start = time.perf_counter()
    found = tree_map(_on_host, x)
    monitoring.record_event_time_span(FROM_DEVICE, start, time.perf_counter())
    return found


def _on_host(leaf: Any) -> Any:
    if not isinstance(leaf, ConcreteArray) or dtypes.is_extended(leaf.dtype):
        return leaf
    return np.asarray(leaf)


@api_boundary
def make_array_from_callback(
    shape: Sequence[int],
    sharding: Sharding,
    data_callback: Callable[[Index], Any],
    dtype: Any = None,
) -> Array:
    """Make an array whose shard at `index` is `data_callback(index)`.

    Each process asks for the shards of its own devices.

    Raises: ValueError if the array cannot be sharded this way, or a shard has another shape.
    Example:
        >>> data = np.arange(8.0, dtype=np.float32)
        >>> sharding = kiln.NamedSharding(kiln.make_mesh((1,), ("i",)), kiln.P("i"))
        >>> kiln.make_array_from_callback((8,), sharding, lambda index: data[index]).shape
        (8,)
    """
    shape = tuple(shape)
    sharding = without_layout(sharding, "make_array_from_callback")
    require_fit(sharding, shape, f"make_array_from_callback of shape {shape}")
    known: dict[Any, Any] = {}
    parts = []
    for index in sharding.addressable_devices_indices_map(shape).values():
        key = tuple((s.start, s.stop) for s in index)
        if key not in known:
            known[key] = _part(data_callback(index), dtype)
        parts.append(known[key])
    return _join(shape, sharding, parts, "make_array_from_callback", dtype)  # type: ignore[no-any-return]


def _part(part: Any, dtype: Any) -> Any:
    """Return what a callback returned as an array on the host; keys keep their type."""
    require_unmasked(part)
    if isinstance(part, ConcreteArray) and dtypes.is_extended(part.dtype):
        return from_host(host_value(part), part.aval)
    data = np.asarray(part)
    return np.asarray(data, dtypes.canonicalize_dtype(dtype or data.dtype))


@api_boundary
def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Sharding, arrays: Sequence[Any], *, dtype: Any = None
) -> Array:
    """Assemble an array, without a copy, from shards on the sharding's devices in this process.

    Raises: ValueError for shards of the wrong number, shape or dtype, or on other devices.
    Example:
        >>> sharding = kiln.NamedSharding(kiln.make_mesh((1,), ("i",)), kiln.P("i"))
        >>> kiln.make_array_from_single_device_arrays((3,), sharding, [jnp.arange(3)])
        Array([0, 1, 2], dtype=int32)
    """
    asked = f"make_array_from_single_device_arrays of shape {tuple(shape)}"
    require_fit(sharding, shape, asked)
    here = [sharding.devices[i] for i in sharding.addressable_order]
    found = _single(arrays, here, dtype, f"{asked} at {current_source()}")
    by_device = {x.device: x for x in found}
    parts = [by_device[d] for d in here]
    return _join(tuple(shape), sharding, parts, "make_array_from_single_device_arrays", dtype)  # type: ignore[no-any-return]


def _single(arrays: Any, here: Sequence[Any], dtype: Any, asked: str) -> list[ConcreteArray]:
    """Return arrays unchanged, if each is on one device and there is one for each of `here`.

    Raises: TypeError unless they are in a list or tuple; ValueError for others.
    """

    def error(wrong: str, kind: type[Exception] = ValueError) -> Exception:
        return kind(three_lines(asked, wrong, "make each part with kiln.device_put(part, device)"))

    name = "jax.make_array_from_single_device_arrays"
    if not isinstance(arrays, (list, tuple)):
        raise error(
            f"{name} `arrays` argument must be a list or tuple, got {type(arrays)}", TypeError
        )
    if any(isinstance(x, Tracer) for x in arrays):
        raise error(f"{name} requires a list of concrete arrays, and some are traced")
    found = list(map(as_array, arrays))
    several = [len(x.sharding.devices) for x in found if len(x.sharding.devices) > 1]
    if several:
        raise error(
            "When making an array from single-device arrays the input arrays must have one shard "
            f"each. An argument array had {several[0]} shard(s)."
        )
    if not found and dtype is None:
        raise error(
            "If the Array has no addressable shards, `dtype` must be provided via the `dtype` "
            f"argument to `{name}`."
        )
    if len(found) != len(here):
        raise error(
            f"Expected {len(here)} per-device arrays (this is how many devices are addressable by "
            f"the sharding), but got {len(found)}"
        )
    if len({x.device for x in found}) < len(found):
        raise error(
            "When making an array from single-device arrays, the input arrays must be from "
            "distinct devices"
        )
    mine, theirs = {d.id for d in here}, {x.device.id for x in found}
    if mine != theirs:
        raise error(
            "Addressable devices and per-device arrays devices do not match. Sharding contains "
            f"devices {mine - theirs} that are not present in per-device arrays. Per-device arrays "
            f"contain devices {theirs - mine} that are not present in the sharding."
        )
    return found


def _join(
    shape: tuple[int, ...],
    sharding: Sharding,
    parts: Sequence[Any],
    what: str,
    dtype: Any = None,
) -> Any:
    wanted = sharding.shard_shape(shape)
    require_part(sharding, f"{what} of shape {shape}")
    given = dtype is not None
    dtype = dtypes.canonicalize_dtype(dtype) if given else aval_of(parts[0]).dtype
    for part, i in zip(parts, sharding.addressable_order, strict=True):
        aval = aval_of(part)
        wrong = ""
        if aval.shape != wanted:
            wrong = (
                f"Expected shard shape {wanted} doesn't match the single device array shape "
                f"{aval.shape}"
            )
        elif aval.dtype != dtype:
            wrong = (
                "Input buffers to `Array` must have matching dtypes. Got "
                f"{dtypes.long_name(aval.dtype)}, expected {dtypes.long_name(dtype)}"
            )
            if given:
                wrong += (
                    f". If `dtype` is provided to `jax.{what}`, it must match the dtype of the "
                    "addressable shards."
                )
        if wrong:
            raise ValueError(
                three_lines(
                    f"{what} of shape {shape} sharded by {sharding} at {current_source()}",
                    f"{wrong}: the part for {sharding.devices[i]} has type {aval}",
                    "give parts of equal shapes and dtypes",
                )
            )
    arrays = [p if isinstance(p, ConcreteArray) else from_host(p) for p in parts]
    memory = default_engine().memory
    return joined(ShapedArray(shape, dtype), memory, sharding, arrays)


def live_arrays() -> list[ConcreteArray]:
    """Return the arrays that are still referenced and not deleted.

    Example:
        >>> x = jnp.arange(3)
        >>> any(array is x for array in kiln.live_arrays())
        True
    """
    return [x for x in _runtime.live_arrays() if not x.is_deleted()]


def devices(backend: str | None = None) -> list[Any]:
    """Return the devices of a platform, of all processes.

    Raises: RuntimeError if the platform is not available.
    Example:
        >>> kiln.devices("cpu")[0].platform
        'cpu'
        >>> len(kiln.devices()) == kiln.device_count()
        True
    """
    found = list(default_engine().memory.all_devices())
    here = sorted({d.platform for d in found})
    if backend is None:
        return found
    if backend not in here:
        raise RuntimeError(
            three_lines(
                f"the backend {backend!r} was requested at {current_source()}",
                f"Unknown backend {backend}: no such devices here, only {', '.join(here)}",
                PLUGINS.get(backend, f"use one of: {', '.join(here)}"),
            )
        )
    return [d for d in found if d.platform == backend]


def local_devices(process_index: int | None = None, backend: str | None = None) -> list[Any]:
    """Return the devices of a process, by default of this one.

    `process_index` is the number of the process.
    Raises: RuntimeError if the platform `backend` is not available; by default all platforms count.
    Example:
        >>> kiln.local_devices()[0].process_index
        0
    """
    wanted = processes().index if process_index is None else process_index
    return [d for d in devices(backend) if d.process_index == wanted]


def device_count(backend: str | None = None) -> int:
    """Return the number of devices of all processes.

    Raises: RuntimeError if the platform `backend` is not available; by default all platforms count.
    Example:
        >>> kiln.device_count() == len(kiln.devices())
        True
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """Return the number of devices of this process.

    Raises: RuntimeError if the platform `backend` is not available; by default all platforms count.
    Example:
        >>> kiln.local_device_count() >= 1
        True
    """
    return len(local_devices(backend=backend))


def default_backend() -> str:
    """Return the name of the default platform.

    Example:
        >>> kiln.default_backend()
        'cpu'
    """
    return str(devices()[0].platform)


def process_index() -> int:
    """Return the number of this process.

    Example:
        >>> kiln.process_index()
        0
        >>> kiln.process_index() < kiln.process_count()
        True
    """
    return freeze_processes().index


def process_count() -> int:
    """Return the number of processes.

    Example:
        >>> kiln.process_count()
        1
    """
    return freeze_processes().count
