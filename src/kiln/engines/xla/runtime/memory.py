"""The memory of the xla engine: buffers of jaxlib on the devices of one platform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kiln.core.arrays.shards import assembled
from kiln.core.engines.devices import Device
from kiln.engines.xla.runtime import buffers
from kiln.engines.xla.runtime.buffers import Buffer
from kiln.engines.xla.runtime.client import Client, client
from kiln.engines.xla.runtime.host_copies import each_copied_once
from kiln.ir.shardings.sharding import Sharding
from kiln.ir.types import ShapedArray


class XlaMemory:
    """Holds data in jaxlib's buffers."""

    buffers_are_ndarrays = False
    places_arrays = True

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._client: Client | None = None

    def _started(self) -> Client:
        found = self._client = client(self._platform)
        return found

    def devices(self) -> Sequence[Device]:
        """Return the devices of the platform that belong to this process."""
        return (self._client or self._started()).local_devices

    def all_devices(self) -> Sequence[Device]:
        """Return the devices of the platform, of all processes."""
        return (self._client or self._started()).devices

    def put(self, value: np.ndarray, sharding: Sharding | None = None) -> Buffer:
        """Copy host data into a new buffer."""
        return (self._client or self._started()).put(value, sharding)

    def adopt(self, value: np.ndarray) -> Buffer:
        """Make a buffer from host memory that is never modified; shared if 64-byte aligned."""
        return (self._client or self._started()).put(value, share=True)

    def adopt_shards(
        self, aval: ShapedArray, sharding: Sharding, parts: Sequence[np.ndarray]
    ) -> Buffer:
        """Make a buffer from its shards of this process, on the host, which are never modified."""
        if len({id(part) for part in parts}) < len(parts):
            parts = each_copied_once(parts)
        return (self._client or self._started()).share(aval, sharding, parts)

    def moved(self, buffer: Buffer, aval: ShapedArray, sharding: Sharding) -> Buffer:
        """Copy a buffer from one device to another, bypassing the host."""
        return (self._client or self._started()).moved(buffer, aval.ndim, sharding)

    def shards(self, buffer: Buffer, sharding: Sharding) -> Sequence[Buffer]:
        """Return the shards of a buffer on several devices, in the order of its sharding."""
        return (self._client or self._started()).shards(buffer, sharding)

    def whole(self, buffer: Buffer, sharding: Sharding, shape: Sequence[int]) -> np.ndarray:
        """Wait for a buffer on several devices of this process; return its data, read-only."""
        home, dtype = self._client or self._started(), buffer.aval.dtype
        if not buffers.is_viewed(dtype):
            return assembled(sharding, shape, home.shards(buffer, sharding), buffers.get)
        parts = home.parts(buffer, sharding)
        return assembled(sharding, shape, parts, lambda part: buffers.view(part, dtype))

    def views(
        self, buffer: Buffer, sharding: Sharding, numbers: Sequence[int]
    ) -> Sequence[np.ndarray]:
        """Wait for some shards of this process, in the order of the sharding; return their data."""
        home, dtype = self._client or self._started(), buffer.aval.dtype
        if not buffers.is_viewed(dtype):
            shards = home.shards(buffer, sharding)
            return [buffers.get(shards[i]) for i in numbers]
        parts = home.parts(buffer, sharding)
        return [buffers.view(parts[i], dtype) for i in numbers]

    def join(self, aval: ShapedArray, sharding: Sharding, parts: Sequence[Buffer]) -> Buffer:
        """Build a buffer from its shards, without a copy."""
        return (self._client or self._started()).join(aval, sharding, parts)

    get = staticmethod(buffers.get)
    wait = staticmethod(buffers.wait)
    is_ready = staticmethod(buffers.is_ready)
    is_deleted = staticmethod(buffers.is_deleted)
    pointer = staticmethod(buffers.pointer)
