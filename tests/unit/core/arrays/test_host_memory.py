"""The memory that engines whose buffers are NumPy arrays have in common."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.core.arrays.host_memory import HOST_MEMORY, HostMemory
from kiln.core.engines.devices import Device
from kiln.core.engines.engine import engine
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding, SingleDeviceSharding
from kiln.ir.types import ShapedArray

DEVICES = [Device(i, "cpu", "cpu", 0) for i in range(4)]
MESH = Mesh(np.array(DEVICES).reshape(2, 2), ("x", "y"))
X = np.arange(8, dtype=np.float32).reshape(4, 2)
AVAL = ShapedArray(X.shape, X.dtype)


def test_there_is_one_device_and_arrays_stay_there() -> None:
    (device,) = HOST_MEMORY.devices()
    assert (device.id, device.platform, device.process_index) == (0, "cpu", 0)
    assert device == DEVICES[0]
    assert HOST_MEMORY.buffers_are_ndarrays
    assert not HOST_MEMORY.places_arrays


def test_the_reference_engine_has_it() -> None:
    assert engine("reference").memory is HOST_MEMORY


def test_put_and_moved_copy_and_adopt_does_not() -> None:
    memory = HostMemory()
    here = SingleDeviceSharding(DEVICES[0])
    for copy in (memory.put(X), memory.moved(X, AVAL, here)):
        assert not np.shares_memory(copy, X)
        assert copy.tolist() == X.tolist()
    assert memory.adopt(X) is X


def test_a_buffer_is_its_data_and_is_there() -> None:
    memory = HostMemory()
    assert memory.get(X) is X
    memory.wait(X)
    assert memory.is_ready(X)
    assert not memory.is_deleted(X)
    assert memory.pointer(X[1:]) == X.ctypes.data + X.strides[0]


@pytest.mark.parametrize(
    "spec", [PartitionSpec(), PartitionSpec("x"), PartitionSpec("y", "x"), PartitionSpec("x", "y")]
)
def test_parts_are_joined_to_what_they_are_parts_of(spec: PartitionSpec) -> None:
    memory, sharding = HostMemory(), NamedSharding(MESH, spec)
    parts = memory.shards(X, sharding)
    assert [part.shape for part in parts] == [sharding.shard_shape(X.shape)] * 4
    for part, index in zip(parts, sharding.indices(X.shape), strict=True):
        assert part.tolist() == X[index].tolist()
    assert memory.join(AVAL, sharding, parts).tolist() == X.tolist()


def test_a_single_part_is_the_buffer() -> None:
    memory, sharding = HostMemory(), SingleDeviceSharding(DEVICES[0])
    (part,) = memory.shards(X, sharding)
    assert part is X
    assert memory.join(AVAL, sharding, [part]) is X
