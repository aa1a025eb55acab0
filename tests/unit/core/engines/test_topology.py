"""Devices that are only described."""

from __future__ import annotations

from kiln.core.engines.topology import DescribedDevice


def test_devices_are_equal_by_value() -> None:
    first, again = (DescribedDevice("tpu", "v5e:2x2", 0, "TPU v5 lite") for _ in range(2))
    assert first == again
    assert hash(first) == hash(again)
    assert first != DescribedDevice("tpu", "v5e:2x2", 1, "TPU v5 lite")
    assert repr(first) == "TPUDevice(id=0, described as 'v5e:2x2')"
