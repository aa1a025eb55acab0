"""Host memory, for all engines whose buffers are NumPy arrays.

There is one device, the host, and one `HOST_MEMORY`: these engines read each other's results
without a copy. Buffers are read-only once published, and computed as soon as they are published:
programs run on the calling thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kiln.base.process.identity import process_count, process_index
from kiln.core.arrays.shards import assembled, split
from kiln.core.engines.devices import Device
from kiln.ir.shardings.sharding import Sharding
from kiln.ir.types import ShapedArray


def _host(process: int) -> Device:
    return Device(0, "cpu", "cpu", process)


class HostMemory:
    """Keeps buffers as NumPy arrays."""

    buffers_are_ndarrays = True
    places_arrays = False

    def __init__(self) -> None:
        self._devices = (_host(0),)

    def devices(self) -> Sequence[Device]:
        """Return the host."""
        if process_count() > 1:
            return (_host(process_index()),)
        return self._devices

    all_devices = devices

    def put(self, value: np.ndarray, sharding: Sharding | None = None) -> np.ndarray:
        """Copy host data."""
        return value.copy()

    def adopt(self, value: np.ndarray) -> np.ndarray:
        """Return the data as it is."""
        return value

    def moved(self, buffer: np.ndarray, aval: ShapedArray, sharding: Sharding) -> np.ndarray:
        """Copy the data: all devices are the host."""
        return buffer.copy()

    def shards(self, buffer: np.ndarray, sharding: Sharding) -> list[np.ndarray]:
        """Return the parts of a buffer, in the order of the sharding."""
        return [buffer] if sharding.num_devices == 1 else split(sharding, buffer)

    def join(
        self, aval: ShapedArray, sharding: Sharding, parts: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Copy the parts into one block, as NumPy needs it; a single part is returned as it is."""
        if len(parts) == 1:
            return parts[0]
        shape = [int(size) for size in aval.physical().shape]
        return assembled(sharding, shape, parts, lambda part: part)

    def get(self, buffer: np.ndarray) -> np.ndarray:
        """Return the buffer: it is the data."""
        return buffer

    def whole(self, buffer: np.ndarray, sharding: Sharding, shape: Sequence[int]) -> np.ndarray:
        """Return the buffer, which holds all parts."""
        return buffer

    def wait(self, buffer: np.ndarray) -> None:
        """Return at once: buffers are computed when they are published."""

    def is_ready(self, buffer: np.ndarray) -> bool:
        """Return True: buffers are computed when they are published."""
        return True

    def is_deleted(self, buffer: np.ndarray) -> bool:
        """Return False: host buffers are never deleted."""
        return False

    def pointer(self, buffer: np.ndarray) -> int:
        """Return the address of the first element."""
        return int(buffer.ctypes.data)


HOST_MEMORY = HostMemory()
