"""The shards of an array that is on several devices."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base.records import Record
from kiln.ir.sharding import Blocks, Index, Sharding


class Shard(Record):
    """One part of an array: the device that holds it, its index in the array, and its data.

    `replica_id` distinguishes copies of the same part.
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


def replica_ids(blocks: Blocks) -> list[int]:
    """Return, for each device, how many devices before it hold the same part."""
    seen: collections.Counter[tuple[int, ...]] = collections.Counter()
    numbers = []
    for place in blocks.at:
        numbers.append(seen[place])
        seen[place] += 1
    return numbers


def shards_of(sharding: Sharding, shape: Sequence[int], parts: Sequence[Any]) -> list[Shard]:
    """Return the shards of an array with their devices and indices."""
    indices, replicas = sharding.indices(shape), replica_ids(sharding.blocks(len(shape)))
    return [Shard(*found) for found in zip(sharding.devices, indices, replicas, parts, strict=True)]


def assembled(
    sharding: Sharding, shape: Sequence[int], parts: Sequence[Any], get: Callable[[Any], np.ndarray]
) -> np.ndarray:
    """Assemble the whole array on the host, reading each part once."""
    if sharding.is_fully_replicated:
        return get(parts[0])
    whole: np.ndarray | None = None
    first = [replica == 0 for replica in replica_ids(sharding.blocks(len(shape)))]
    for part, index, wanted in zip(parts, sharding.indices(shape), first, strict=True):
        if wanted:
            data = get(part)
            if whole is None:
                whole = np.empty(tuple(shape), data.dtype)
            whole[index] = data
    assert whole is not None
    whole.flags.writeable = False
    return whole


def split(sharding: Sharding, value: np.ndarray) -> list[np.ndarray]:
    """Split a host array into contiguous shards, in the order of the sharding's devices.

    No two of them share memory, which some engines do not support.
    """
    replicas = replica_ids(sharding.blocks(value.ndim))
    value = np.asarray(value, order="C")
    return [
        np.array(value[index], order="C", copy=bool(replica or not value.size) or None)
        for index, replica in zip(sharding.indices(value.shape), replicas, strict=True)
    ]
