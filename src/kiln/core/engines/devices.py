"""Attributes of devices besides their number: platform and memory."""

from __future__ import annotations

from typing import Any

from kiln.base.errors import three_lines
from kiln.base.pickled import pickled_as, reduced
from kiln.base.records import Record
from kiln.base.source import current_source


class DevicePlatform(Record):
    """The platform of a device, which JAX calls its client."""

    platform: str

    @property
    def platform_version(self) -> str:
        """What implements the platform."""
        return "kiln"

    @property
    def runtime_type(self) -> str:
        """How programs reach the devices: from this process."""
        return self.platform


class DeviceMemory(Record):
    """The memory of a device; each has one."""

    kind: str
    device: Any

    @property
    def platform(self) -> str:
        """The type of device."""
        return str(self.device.platform)

    @property
    def process_index(self) -> int:
        """The number of the process that owns the device."""
        return int(self.device.process_index)

    def addressable_by_devices(self) -> list[Any]:
        """Return the devices that use the memory."""
        return [self.device]


class HasMemory:
    """Base class of devices: attributes that follow from their platform."""

    __slots__ = ()

    @property
    def client(self) -> DevicePlatform:
        """The platform."""
        return DevicePlatform(self.platform)  # type: ignore[attr-defined]

    def default_memory(self) -> DeviceMemory:
        """Return the memory of arrays on the device."""
        return DeviceMemory("device", self)

    def addressable_memories(self) -> list[DeviceMemory]:
        """Return the memories that the device uses: one."""
        return [self.default_memory()]

    def memory(self, kind: str) -> DeviceMemory:
        """Return the memory of a kind.

        Raises: ValueError unless it is `device`.
        """
        for found in self.addressable_memories():
            if found.kind == kind:
                return found
        raise ValueError(
            three_lines(
                f"memory({kind!r}) of {self} at {current_source()}",
                "the device has one kind of memory",
                "ask for memory('device')",
            )
        )


@pickled_as("Device")
class Device(HasMemory, Record):
    """A device that runs programs. There is one object per device, compared by value."""

    id: int
    platform: str
    device_kind: str
    process_index: int

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("Device", self.id, self.platform, self.device_kind, self.process_index)
