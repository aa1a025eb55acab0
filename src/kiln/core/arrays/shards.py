"""The shards of an array that is on several devices."""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.process.identity import process_index
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.ir.shardings.sharding import Index, NamedSharding, Sharding


class Shard(Record):
    """One part of an array: the device that holds it, its index in the array, and its data.

    `replica_id` distinguishes copies of the same part.

    Example:
        >>> jnp.arange(3).addressable_shards[0].index
        (slice(None, None, None),)
    """

    device: Any
    index: Index
    replica_id: int
    data: Any

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data})"
        )


@functools.lru_cache(1024)
def replica_ids(sharding: Sharding, ndim: int) -> Sequence[int]:
    """Return, for each device, how many devices before it hold the same part.

    `ndim` is the rank of the array.
    """
    seen: collections.Counter[tuple[int, ...]] = collections.Counter()
    numbers = []
    for place in sharding.blocks(ndim).at:
        numbers.append(seen[place])
        seen[place] += 1
    return numbers


def shards_of(
    sharding: Sharding, shape: Sequence[int], parts: Sequence[Any], *, everywhere: bool = False
) -> list[Shard]:
    """Return the shards of this process with their devices and indices, given their data.

    With `everywhere` also those of other processes, whose data are None.
    """
    replicas, devices = replica_ids(sharding, len(shape)), sharding.devices
    here = dict(zip(sharding.addressable_order, parts, strict=True))
    which: Sequence[int] = range(len(devices)) if everywhere else sharding.addressable_order
    indices = sharding.indices(shape) if everywhere else sharding.addressable_indices(shape)
    return [
        Shard(devices[i], index, replicas[i], here.get(i))
        for i, index in zip(which, indices, strict=True)
    ]


def assembled(
    sharding: Sharding, shape: Sequence[int], parts: Sequence[Any], get: Callable[[Any], np.ndarray]
) -> np.ndarray:
    """Assemble the whole array on the host, reading each part of this process once."""
    if sharding.is_fully_replicated:
        return get(parts[0])
    if sharding.unreduced:
        return _added(sharding, shape, [get(part) for part in parts])
    whole: np.ndarray | None = None
    for number, (part, cut) in enumerate(zip(parts, cuts(sharding, tuple(shape)), strict=True)):
        index, first = cut
        if first == number:
            data = get(part)
            if whole is None:
                whole = np.empty(tuple(shape), data.dtype)
            whole[index] = data
    assert whole is not None
    whole.flags.writeable = False
    return whole


def _added(sharding: Sharding, shape: Sequence[int], parts: Sequence[np.ndarray]) -> np.ndarray:
    """Assemble an array from partial sums. Copies of the same part are added once."""
    assert isinstance(sharding, NamedSharding)
    mesh = sharding.mesh
    summed = [mesh.axis_names.index(name) for name in sharding.unreduced]
    whole = np.zeros(tuple(shape), parts[0].dtype)
    seen = set()
    places = list(np.ndindex(mesh.axis_sizes))
    at = sharding.blocks(len(shape)).at
    for part, number, index in zip(
        parts, sharding.addressable_order, sharding.addressable_indices(shape), strict=True
    ):
        key = at[number], tuple(places[number][i] for i in summed)
        if key not in seen:
            seen.add(key)
            whole[index] += part
    whole.flags.writeable = False
    return whole


def require_part(sharding: Sharding, asked: str) -> None:
    """Raise ValueError unless this process has one of a sharding's devices."""
    if not sharding.addressable_order:
        raise ValueError(
            three_lines(
                f"{asked} by {sharding} at {current_source()}",
                f"none of its devices belongs to process {process_index()}",
                "use it in the processes that have one, or devices of this one: "
                "kiln.local_devices()",
            )
        )


def is_all_here(sharding: Sharding, ndim: int) -> bool:
    """Tell whether the devices of this process hold all parts of arrays of rank `ndim`."""
    if sharding.is_fully_addressable or sharding.unreduced:
        return sharding.is_fully_addressable
    parts, at = sharding.blocks(ndim)
    return len({at[i] for i in sharding.addressable_order}) == math.prod(parts)


def split(sharding: Sharding, value: np.ndarray, *, apart: bool = True) -> list[np.ndarray]:
    """Split a host array into this process's contiguous shards, in the order of the devices.

    `apart`: no two of them share memory, which some engines do not support.
    """
    value = np.asarray(value, order="C")
    found: list[np.ndarray] = []
    holders = sharding.holders()
    for index, first in cuts(sharding, value.shape):
        if holders is not None:
            holds = holders[sharding.addressable_order[len(found)]]
            part = value[index]
            found.append(np.array(part, order="C") if holds else np.zeros(part.shape, part.dtype))
        elif first == len(found):
            copy = True if apart and not value.size else None
            found.append(np.array(value[index], order="C", copy=copy))
        else:
            found.append(found[first].copy() if apart else found[first])
    return found


@functools.lru_cache(4096)
def cuts(sharding: Sharding, shape: tuple[int, ...]) -> Sequence[tuple[Index, int]]:
    """Return the parts that this process's devices hold, and the number of the first like it."""
    at = sharding.blocks(len(shape)).at
    firsts: dict[tuple[int, ...], int] = {}
    return [
        (index, firsts.setdefault(at[i], number))
        for number, (i, index) in enumerate(
            zip(sharding.addressable_order, sharding.addressable_indices(shape), strict=True)
        )
    ]
