"""The benchmark of exported programs measures what it says."""

from __future__ import annotations

import pytest

from benchmarks.exported import measure, programs, table

pytest.importorskip("flatbuffers")


def test_a_program() -> None:
    name, program = next(iter(programs(tiny=True).items()))
    row = measure(name, program, rounds=1)
    assert all(0 < seconds < 60 for seconds in row[1:])
    (line,) = [each for each in table([row]).splitlines() if each.startswith(f"| {name}")]
    assert line.count("|") == 8
