"""Instrumented programs: measurements by nest and line, a trace, symbols for perf."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.engines.native.executables import perf_map
from kiln.engines.native.loop_ir.statements import Loop
from kiln.engines.native.loop_ir.text import lines_of
from kiln.engines.native.reports.profiling import trace

SOURCE = """
import kiln, kiln.numpy as jnp
from kiln import lax

def model(x):
    y = jnp.sin(x) * 2
    z = jnp.exp(y) + 1
    return lax.scan(lambda c, _: (jnp.cos(c[::-1] * 3), None), z, None, length=4)[0], z.sum()

f = kiln.jit(model)
for _ in range(3):
    f(jnp.ones((64, 32)))
"""


def program(x: Any) -> Any:
    y = jnp.sin(x) + 1
    return lax.scan(lambda c, _: (jnp.tanh(c[::-1]), None), y, None, length=6)[0]


def run(folder: Path, **options: str) -> subprocess.CompletedProcess[str]:
    path = folder / "model.py"
    path.write_text(SOURCE)
    return subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "KILN_DUMP_DIR": str(folder), **options},
        capture_output=True,
        text=True,
        check=True,
    )


def test_figures_at_the_end_of_the_process(tmp_path: Path) -> None:
    err = run(tmp_path, KILN_PROFILE="1").stderr
    assert "--- kiln profile" in err
    assert "model: " in err
    assert "in 3 calls" in err
    assert f"{tmp_path}/model.py:6 in model, {tmp_path}/model.py:7 in model" in err
    rows = [line.split() for line in err.splitlines()]
    # The body of the loop runs four times in each call.
    assert any("12" in row[:5] and "nest" in row for row in rows)
    by_line = err[err.index("by line:") :]
    assert all(f"model.py:{n} in" in by_line for n in (6, 7, 8))
    (path,) = tmp_path.glob("kiln_profile_*.json")
    assert str(path) in err
    found = json.loads(path.read_text())
    events = [each for each in found["traceEvents"] if each["ph"] == "X"]
    starts = [each["ts"] for each in events]
    assert starts == sorted(starts)
    assert all(each["dur"] >= 0 and each["cat"] == "model" for each in events)
    assert {"nest", "loop"} <= {each["name"].split()[0] for each in events}
    # What runs inside the loop is counted, but is not an event.
    assert len(events) % 3 == 0
    names = [each["args"]["name"] for each in found["traceEvents"] if each["ph"] == "M"]
    assert names == ["model (1)"]


def test_nothing_is_measured_unless_asked(tmp_path: Path) -> None:
    assert run(tmp_path).stderr == ""
    assert list(tmp_path.glob("*.json")) == []
    compiled = kiln.jit(program).lower(jnp.ones(9)).compile()
    assert "kiln_clock" not in compiled.as_text("llvm")
    with pytest.raises(ValueError, match="is not instrumented") as found:
        compiled.as_text("profile")
    assert len(str(found.value).splitlines()) == 3


def test_a_table_of_one_program() -> None:
    with override(profile=True):
        compiled = kiln.jit(program).lower(jnp.ones((30, 50))).compile()
        for _ in range(5):
            compiled(jnp.ones((30, 50)))
    table = compiled.as_text("profile")
    assert table.startswith("program: ")
    assert "in 5 calls" in table.splitlines()[0]
    assert "test_profiling.py" in table
    executable = compiled.runtime_executable()
    measured = executable.profile.measured()
    assert [each.runs for each in measured if each.depth == 0] == [5] * sum(
        each.depth == 0 for each in measured
    )
    assert {each.runs for each in measured if each.depth == 1} == {30}
    inside = sum(each.seconds for each in measured if each.depth == 1)
    assert 0 < inside <= executable.profile.seconds()
    by_line = executable.profile.by_line()
    assert sum(by_line.values()) == pytest.approx(executable.profile.seconds(), rel=1e-6)
    events = executable.profile.measurements.events()
    assert all(a.end <= b.start for a, b in itertools.pairwise(events))
    assert any(each.get("cat") == "program" for each in trace()["traceEvents"])


def test_costs_are_without_those_inside() -> None:
    with override(profile=True):
        compiled = kiln.jit(program).lower(jnp.ones((30, 50))).compile()
        compiled(jnp.ones((30, 50)))
    profile = compiled.runtime_executable().profile
    costs = profile.costs()
    assert sum(cost.seconds for cost in costs) == pytest.approx(profile.seconds())
    outermost = [each for each in profile.measured() if each.depth == 0]
    assert sum(cost.flops for cost in costs) == sum(each.flops for each in outermost)
    (loop,) = [cost for cost in costs if isinstance(cost.measured.statement, Loop)]
    assert loop.flops == 0 < loop.measured.flops
    assert all(sum(cost.lines.values()) == pytest.approx(1) for cost in costs)
    # The lines of the text belong to the same statements.
    lines = lines_of(profile.function)
    assert "\n".join(text for text, _ in lines) + "\n" == compiled.as_text("loops")
    owners = {owner for _, owner in lines} - {None}
    assert owners == {cost.measured.statement for cost in costs}
    (heading,) = [text for text, owner in lines if owner is loop.measured.statement and "{" in text]
    assert heading.strip().startswith("loop ")
    assert "kiln_measured" in profile.llvm
    assert profile.jaxpr is not None


def test_parallel_programs_give_the_same_results() -> None:
    x = jnp.linspace(0.0, 1.0, 200_000).reshape(2000, 100)
    expected = kiln.jit(kiln.nn.softmax)(x)
    with override(profile=True):
        found = kiln.jit(kiln.nn.softmax)(x)
    assert (found == expected).all()


@pytest.mark.skipif(sys.platform != "linux", reason="perf is Linux's")
def test_names_for_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = kiln.jit(program).lower(jnp.ones(90_000)).compile().runtime_executable()
    symbols = {each.name: each for each in perf_map.functions(executable.image)}
    entry = symbols["kiln_entry"]
    assert entry.size > 0
    assert any(name.startswith("nest") for name in symbols)
    assert list(perf_map.functions(b"no object")) == []
    script = (
        "import os, kiln, kiln.numpy as jnp\n"
        "kiln.jit(lambda x: x + 1)(jnp.ones(3))\n"
        "path = f'/tmp/perf-{os.getpid()}.map'\n"
        "print(open(path).read())\n"
        "os.unlink(path)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "KILN_PERF": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [x for x in found.stdout.splitlines() if x.endswith("kiln:<lambda>:kiln_entry")]
    address, size, _ = line.split()
    assert int(address, 16) > 4096
    assert int(size, 16) > 0
