"""The machine's limits, and which of them binds an operation."""

from __future__ import annotations

import pytest

from kiln.tools import limits

FOUND = limits.Limits({"f32": 100.0, "f64": 50.0}, {10: 8.0, 100: 4.0})


def test_what_binds() -> None:
    assert FOUND.seconds("f32", 200.0, 8.0, 1) == (2.0, "arithmetic")
    assert FOUND.seconds("i32", 200.0, 8.0, 1) == (2.0, "arithmetic")
    assert FOUND.seconds("f64", 200.0, 8.0, 1) == (4.0, "arithmetic")
    assert FOUND.seconds("f32", 0.0, 80.0, 1) == (20.0, "memory")
    # Each of ten runs touches what a higher level of caches holds.
    assert FOUND.seconds("f32", 0.0, 80.0, 10) == (10.0, "memory")
    assert FOUND.bytes_per_second(1e9) == 4.0


@pytest.mark.full
def test_measured() -> None:
    # A second of measuring; `kiln profile` measures in the slice.
    found = limits.measured()
    assert found.flops["f32"] > found.flops["f64"] / 2 > 0
    assert all(rate > 0 for rate in found.bytes.values())
