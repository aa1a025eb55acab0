"""`kiln explain`: what is compiled more than once, what falls back, and what the program keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kiln.base.options.config import options
from kiln.execution.fallbacks import Fallback
from kiln.jit.signatures.explain import Difference, Record, only
from kiln.tools import explain

PROGRAM = """\
import os, sys
import kiln
import kiln.numpy as jnp


@kiln.jit
def scaled(x):
    return 2 * x


for n in (3, 4, 4, 5):
    scaled(jnp.ones(n))
for _ in range(2):
    kiln.jit(lambda x: jnp.sin(x))(1.0)
state = (kiln.config.enable_x64, kiln.get_num_threads())
print("done", __name__, sys.argv[1:], *state, flush=True)
os.system("echo from a process")
match sys.argv[1:2]:
    case ["fail"]: raise ValueError("oh")
    case ["exit"]: sys.exit(3)
"""
FOR_JAX = """\
import jax

print(jax.jit(lambda x: x + 1)(jax.numpy.zeros(2)), jax.jit.__module__)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return str(path)


def run(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kiln", "explain", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
    )


def test_the_report_for_people(program: str, tmp_path: Path) -> None:
    done = run("program.py", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["done __main__ ['--json'] False " + lines[0].split()[-1], "from a process"]
    assert lines[2].startswith("program.py --json: ")
    assert lines[2].endswith(" s, exit status 0")
    at = lines.index("compiled again: scaled at program.py:6")
    assert lines[at + 2].split("  ")[1:] == [
        "argument x: float32[3] before, float32[4] now",
        "program.py:12",
    ]
    assert lines[at + 4] == "  pad to a few sizes, or name the axis with abstracted_axes"
    assert "no program fell back to XLA" in lines
    assert done.stderr == ""


def test_json(program: str) -> None:
    done = run("--json", "--x64", "--threads", "1", "--no-cache", program, "fail")
    assert done.returncode == 1
    assert "done __main__ ['fail'] True 1\nfrom a process\n" in done.stderr
    assert done.stderr.endswith("\nValueError: oh\n")
    assert "kiln/tools" not in done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    keys = ["program", "status", "seconds", "functions", "recompiled", "fallbacks", "cache"]
    assert list(report) == keys
    assert report["program"] == [program, "fail"]
    assert report["status"] == 1
    traces = {each["function"]: each["traces"] for each in report["functions"]}
    assert traces == {"scaled": 3, "<lambda>": 1}
    assert all(each["compile_seconds"] > 0 for each in report["functions"])
    first, second = report["recompiled"]
    assert {**first, "seconds": 0} == {
        "function": "scaled",
        "definition": f"scaled at {program}:6",
        "called_at": f"{program}:12",
        "reason": "shape",
        "argument": "x",
        "old": "float64[3]",
        "new": "float64[4]",
        "seconds": 0,
        "remedy": "pad to a few sizes, or name the axis with abstracted_axes",
    }
    assert second["new"] == "float64[5]"
    assert report["fallbacks"] == []
    assert report["cache"] == {"hits": 0, "misses": 0}


def test_programs_that_exit_are_explained(program: str) -> None:
    done = run(program, "exit")
    assert done.returncode == 3
    assert "exit status 3" in done.stdout


def test_programs_for_jax(tmp_path: Path) -> None:
    (tmp_path / "for_jax.py").write_text(FOR_JAX, encoding="utf-8")
    for words in (["for_jax.py"], ["-m", "for_jax"]):
        done = run("--as-jax", *words, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("[1. 1.] kiln.api.jit\n")
        assert "<lambda> at " in done.stdout


def test_each_reason_has_a_remedy() -> None:
    for reason in ("shape", "new function", "closure", "evicted"):
        assert explain.remedy(Record("f", "f", only(reason), "a.py:1")) != explain.remedy(
            Record("f", "f", only("another"), "a.py:1")
        )


def many(count: int) -> explain.Report:
    differences = (Difference("x", "shape", "f32[1]", "f32[2]"),)
    first = [
        Record(f"f{i}", f"f{i} at a.py:{i}", only("first call"), "a.py:1") for i in range(count)
    ]
    again = [Record("f0", "f0 at a.py:0", differences, f"a.py:{i}", 1.0) for i in range(count)]
    fallbacks = [Fallback("f0", "a reason")] * 2
    return explain.Report(["a.py"], 0, 1.0, [*first, *again], fallbacks, 1, 2)


def test_long_tables_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    explain.show(many(30))
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split()[0] == "f0"
    assert "  and 10 more functions" in lines
    assert "  and 22 more times" in lines
    at = lines.index("compiled by XLA instead of the native engine")
    assert lines[at + 2].split() == ["f0", "2", "a", "reason"]
    report = explain.as_json(many(30))
    assert len(report["functions"]) == 30
    assert report["fallbacks"] == [{"program": "f0", "reason": "a reason", "count": 2}]


def test_a_program_without_jit(capsys: pytest.CaptureFixture[str]) -> None:
    explain.show(explain.explained(lambda: None, ["a.py"]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["no function was compiled more than once", "no program fell back to XLA"]
    assert options().explain is False
