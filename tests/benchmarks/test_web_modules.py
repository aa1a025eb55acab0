"""The benchmark of WebAssembly modules measures what it says."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.libraries import programs
from benchmarks.web_modules import measure, table
from tests.programs.node_driver import needs_node

pytestmark = [
    needs_node,
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]


@pytest.mark.parametrize("name", ["selu", pytest.param("mlp", marks=pytest.mark.full)])
def test_programs(name: str) -> None:
    row = measure(name, programs(tiny=True)[name], rounds=2)
    assert row.constants < row.packed < row.module
    assert all(0 < seconds < 1 for seconds in (row.node, row.narrow, row.host))
    (line,) = [each for each in table([row]).splitlines() if each.startswith(f"| {name}")]
    assert f"{row.module:,}" in line
