"""Moving arrays tells listeners of time spans."""

from __future__ import annotations

from typing import Any

import numpy as np

import kiln
import kiln.monitoring


def test_transfers_are_events() -> None:
    seen: list[tuple[str, Any]] = []

    def note(event: str, start: float, end: float, **shown: Any) -> None:
        assert start <= end
        seen.append((event, shown))

    kiln.monitoring.register_event_time_span_listener(note)
    try:
        kiln.device_get(kiln.device_put({"a": np.ones(3), "b": 1.0}))
    finally:
        kiln.monitoring.unregister_event_time_span_listener(note)
    kiln.device_put(1.0)
    assert seen == [
        ("/kiln/transfer/device_put", {"arrays": 2}),
        ("/kiln/transfer/device_get", {}),
    ]
