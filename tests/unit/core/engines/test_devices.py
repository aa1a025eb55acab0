"""What devices tell of their platform and their memory."""

from __future__ import annotations

import pytest

import kiln


@pytest.mark.parametrize("engine", ["native", "xla", "reference"])
def test_devices_tell_of_their_platform_and_memory(engine: str) -> None:
    before = kiln.config.engine
    kiln.config.update("engine", engine)
    try:
        device = kiln.devices()[0]
    finally:
        kiln.config.update("engine", before)
    assert device.client.platform == device.client.runtime_type == "cpu"
    memory = device.default_memory()
    assert device.addressable_memories() == [memory] == [device.memory("device")]
    assert (memory.kind, memory.platform, memory.process_index) == ("device", "cpu", 0)
    assert memory.addressable_by_devices() == [device]
    with pytest.raises(ValueError, match="one kind of memory"):
        device.memory("pinned_host")
