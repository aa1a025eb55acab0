"""Devices that are only described: programs are compiled for them ahead of time."""

from __future__ import annotations

from kiln.base.records import Record


class DescribedDevice(Record):
    """A device of a described machine; equal by value.

    `topology` is the platform's name of the machine.
    """

    platform: str
    topology: str
    id: int
    device_kind: str
    process_index: int = 0

    def __repr__(self) -> str:
        return f"{self.platform.upper()}Device(id={self.id}, described as {self.topology!r})"


class TopologyDescription(Record):
    """A machine that programs can be compiled for without access to it."""

    devices: tuple[DescribedDevice, ...]
