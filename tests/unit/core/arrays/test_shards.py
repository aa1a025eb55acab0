"""Shards of arrays: splitting, numbering replicas, assembling."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln.core.arrays.shards import Shard, assembled, replica_ids, split
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding

MESH = Mesh(np.array(kiln.devices()).reshape(4, 2), ("a", "b"))
VALUE = np.arange(32.0).reshape(8, 4)


def sharding(*entries):
    return NamedSharding(MESH, PartitionSpec(*entries))


@pytest.mark.parametrize("spec", [(), ("a",), ("b", "a"), (None, "b"), (("a", "b"),)])
def test_parts_come_together_again(spec) -> None:
    parts = split(sharding(*spec), VALUE)
    assert len(parts) == 8
    assert all(part.flags.c_contiguous for part in parts)
    got = assembled(sharding(*spec), VALUE.shape, parts, lambda part: part)
    np.testing.assert_array_equal(got, VALUE)


def test_each_part_is_read_once() -> None:
    reads = []

    def get(part):
        reads.append(1)
        return part

    assembled(sharding("a"), VALUE.shape, split(sharding("a"), VALUE), get)
    assert len(reads) == 4


def test_repeats_do_not_share_memory() -> None:
    parts = split(sharding("a"), VALUE)
    assert not np.shares_memory(parts[0], parts[1])
    np.testing.assert_array_equal(parts[0], parts[1])


@pytest.mark.parametrize("value", [np.broadcast_to(np.float32(1), (8,)), np.zeros((8, 0))])
def test_neither_do_parts_of_values_that_repeat(value) -> None:
    parts = split(sharding(("a", "b")), value)
    assert len({part.ctypes.data for part in parts}) == 8


def test_scalars_stay_scalars() -> None:
    assert [part.shape for part in split(sharding(), np.float32(3) + np.zeros(()))] == [()] * 8


def test_repeats_are_numbered() -> None:
    assert replica_ids(sharding("a"), 1) == [0, 1] * 4
    assert replica_ids(sharding(None, "b"), 2) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_shard_shows_what_it_is() -> None:
    text = repr(Shard("device", (slice(0, 2),), 1, 5.0))
    assert text == "Shard(device='device', index=(slice(0, 2, None),), replica_id=1, data=5.0)"
