"""The benchmark of libraries measures what it says, and sizes stay within their goals."""

from __future__ import annotations

import math
import shutil

import pytest

from benchmarks.libraries import measure, programs, table

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.mark.parametrize("name", programs(tiny=True))
def test_programs(name: str) -> None:
    row = measure(name, programs(tiny=True)[name], rounds=2)
    assert row.shared - row.constants <= row.goal
    assert row.shared > row.constants
    assert 0 < row.whole < 1
    assert math.isnan(row.code) == (name != "selu")
    (line,) = [each for each in table([row]).splitlines() if each.startswith(f"| {name}")]
    assert f"{row.shared:,}" in line
