"""The shards of an array that is on several devices."""

from __future__ import annotations

import collections
import functools
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


def split(sharding: Sharding, value: np.ndarray, *, apart: bool = True) -> list[np.ndarray]:
    """Split a host array into contiguous shards, in the order of the sharding's devices.

    `apart`: no two of them share memory, which some engines do not support.
    """
    value = np.asarray(value, order="C")
    found: list[np.ndarray] = []
    for index, first in _cuts(sharding, value.shape):
        if first == len(found):
            copy = True if apart and not value.size else None
            found.append(np.array(value[index], order="C", copy=copy))
        else:
            found.append(found[first].copy() if apart else found[first])
    return found


@functools.lru_cache(4096)
def _cuts(sharding: Sharding, shape: tuple[int, ...]) -> Sequence[tuple[Index, int]]:
    """Return the parts that devices hold, and which is the first device that holds the same."""
    firsts: dict[tuple[int, ...], int] = {}
    at = sharding.blocks(len(shape)).at
    return [
        (index, firsts.setdefault(place, number))
        for number, (index, place) in enumerate(zip(sharding.indices(shape), at, strict=True))
    ]
