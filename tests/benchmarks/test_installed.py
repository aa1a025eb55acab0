"""The table of installations holds what is installed here."""

from __future__ import annotations

import sys

from benchmarks.installed import row, sizes


def test_what_a_distribution_needs() -> None:
    found = sizes(sys.executable, "scipy")
    assert set(found) == {"scipy", "numpy"}
    assert min(found.values()) > 10e6


def test_a_row() -> None:
    cells = [cell.strip() for cell in row("msgpack", sys.executable, 1).strip("|").split("|")]
    assert cells[0] == "msgpack"
    assert cells[3] == f"msgpack {cells[2]}"
    assert 0 <= float(cells[4]) < 10_000
