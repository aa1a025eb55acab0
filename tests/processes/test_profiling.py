"""`kiln profile` of a program of several processes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.processes.launching import launched
from tests.unit.tools.trace_format import wrong

PROGRAM = """\
import numpy as np
import kiln
from kiln.sharding import NamedSharding, P

kiln.distributed.initialize()
mesh = kiln.make_mesh((kiln.device_count(),), ("d",))
x = kiln.device_put(np.ones((8 * kiln.device_count(), 64), np.float32), NamedSharding(mesh, P("d")))
step = kiln.jit(lambda x: x.sum(0))
for _ in range(5):
    step(x).block_until_ready()
"""


@pytest.mark.full
@pytest.mark.parametrize("count", [2, 4])
def test_one_trace_of_all_processes(count: int, tmp_path: Path) -> None:
    program, trace = tmp_path / "train.py", tmp_path / "trace.json"
    program.write_text(PROGRAM, encoding="utf-8")
    words = "profile", "--processes", "--trace", str(trace), str(program)
    done = launched("kiln", *words, count=count, devices=1, KILN_CHECK="")
    assert done.returncode == 0, done.stderr
    (row,) = re.findall(
        r"^\[0\]\s+256 bytes\s+(\d)\s+(\d)\s.* jit__lambda_: all-reduce", done.stdout, re.MULTILINE
    )
    assert row == (str(count), "5")
    merged = json.loads(trace.read_text(encoding="utf-8"))
    assert wrong(merged) == []
    collectives = [e["pid"] for e in merged["traceEvents"] if e.get("cat") == "collective"]
    assert sorted(collectives) == sorted([*range(count)] * 5)
    assert [path.name for path in tmp_path.iterdir() if "process" in path.name] == []
