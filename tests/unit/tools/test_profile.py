"""`kiln profile` of a training loop: figures, the trace's format, pictures, plain tables."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from kiln.base.options.config import options
from kiln.tools import profile
from tests.unit.tools.trace_format import wrong

STEPS, ROWS, INSIDE = 5, 32, 64
PROGRAM = f"""\
import sys
import kiln
import kiln.numpy as jnp
from kiln import linen as nn


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(8, (3, 3), padding="VALID")(x)
        x = nn.relu(x).reshape((x.shape[0], -1))
        return nn.Dense({INSIDE})(x)


net = Net()
images = jnp.ones(({ROWS}, 10, 10, 4))
params = net.init(kiln.random.key(0), images)


@kiln.jit
def step(params, x):
    grads = kiln.grad(lambda p: jnp.mean(net.apply(p, x) ** 2))(params)
    return kiln.tree.map(lambda p, g: p - 0.1 * g, params, grads)


for _ in range({STEPS}):
    params = step(params, kiln.device_put(images))
print("done", sys.argv[1:])
match sys.argv[1:]:
    case ["fail"]: raise ValueError("oh")
"""
DENSE = 2 * ROWS * 8 * 8 * 8 * INSIDE
CONV = 2 * ROWS * 8 * 8 * 8 * 9 * 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("profiled")
    (made / "train.py").write_text(PROGRAM, encoding="utf-8")
    return made


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kiln", "profile", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env={name: x for name, x in os.environ.items() if name != "KILN_PROFILE"},
    )


@pytest.fixture(scope="module")
def written(folder: Path) -> dict[str, Any]:
    """The JSON of a run that also wrote all files."""
    files = ["--trace", "t.json", "--flame", "f.svg", "--roofline", "r.svg"]
    done = run(folder, "--json", *files, "train.py", "three", "words")
    assert done.returncode == 0, done.stderr
    # The report of KILN_PROFILE is not printed too.
    assert done.stderr == "done ['three', 'words']\n"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_lines_have_their_operations(written: dict[str, Any], folder: Path) -> None:
    lines = {each["line"]: each for each in written["lines"] if each["file"] == "train.py"}
    assert {10, 12} <= set(lines)
    # Each step computes the product, and its derivatives by the weights and by the image; there
    # are a few operations more on biases and initial weights.
    dense = 3 * STEPS
    assert dense * DENSE <= lines[12]["flops"] < 1.15 * dense * DENSE
    # The image of the first layer needs no derivative.
    conv = 2 * STEPS
    assert conv * CONV <= lines[10]["flops"] < 1.1 * conv * CONV
    for each in written["lines"]:
        assert each["seconds"] >= 0
        assert 0 <= each["part_of_limit"] <= 1
    assert sum(each["seconds"] for each in written["lines"]) == pytest.approx(
        written["in_programs"], rel=1e-6
    )


def test_operations_are_those_of_the_lines(written: dict[str, Any]) -> None:
    steps = [each for each in written["operations"] if each["program"] == "step"]
    assert {each["runs"] for each in steps} == {STEPS}
    assert any("kiln_gemm" in each["operation"] for each in steps)
    assert {each["bound"] for each in steps} <= {"arithmetic", "memory"}
    for what in ("flops", "bytes", "seconds"):
        by_line = sum(each[what] for each in written["lines"])
        assert sum(each[what] for each in written["operations"]) == pytest.approx(by_line)
    assert written["status"] == 0
    assert 0 < written["in_first_calls"] < written["seconds"]
    assert all(x > 1e6 for x in written["limits"]["flops_per_second"].values())


def test_the_trace_follows_the_format(written: dict[str, Any], folder: Path) -> None:
    trace = json.loads((folder / "t.json").read_text())
    assert wrong(trace) == []
    events = trace["traceEvents"]
    spans = [each for each in events if each["ph"] == "X"]
    kinds = {each["cat"] for each in spans}
    assert kinds == {"operation", "call", "trace", "compile", "transfer", "python"}
    calls = [each for each in spans if each["cat"] == "call" and each["name"] == "step"]
    assert len(calls) == STEPS
    last = calls[-1]
    inside = [
        each
        for each in spans
        if each["cat"] == "operation"
        and last["ts"] <= each["ts"] <= each["ts"] + each["dur"] <= last["ts"] + last["dur"] + 1e-3
    ]
    assert len(inside) == last["args"]["statements"]
    assert sum(each["args"]["flops"] for each in inside) > 3 * DENSE + 2 * CONV
    transfers = [each for each in spans if each["cat"] == "transfer"]
    assert [each["name"] for each in transfers] == ["device_put"] * STEPS
    # All are times of one clock: the program is compiled before it runs.
    (compiled,) = [each for each in spans if each["name"] == "compile step"]
    assert compiled["ts"] + compiled["dur"] <= calls[0]["ts"]


def test_what_the_check_of_the_format_finds(written: dict[str, Any], folder: Path) -> None:
    trace = json.loads((folder / "t.json").read_text())
    spans = [i for i, each in enumerate(trace["traceEvents"]) if each["ph"] == "X"]
    for change in ({"ts": None}, {"ph": "Q"}, {"dur": -1.0}, {"args": []}, {"tid": 1000}):
        bad = copy.deepcopy(trace)
        bad["traceEvents"][spans[0]].update(change)
        assert wrong(bad), change
    call = next(each for each in trace["traceEvents"] if each.get("cat") == "call")
    trace["traceEvents"].append({**call, "ts": call["ts"] + call["dur"] / 2})
    assert any("overlaps" in each for each in wrong(trace))


def test_pictures_are_svg(written: dict[str, Any], folder: Path) -> None:
    space = "{http://www.w3.org/2000/svg}"
    for name, shape in (("f.svg", "rect"), ("r.svg", "circle")):
        root = ElementTree.fromstring((folder / name).read_text())
        assert root.tag == f"{space}svg"
        assert len(list(root.iter(f"{space}{shape}"))) > 1
    assert "train.py:" in (folder / "f.svg").read_text()


def test_plain_tables_and_the_programs_error(folder: Path) -> None:
    done = run(folder, "train.py", "fail")
    assert done.returncode == 1
    assert done.stderr.endswith("\nValueError: oh\n")
    assert "kiln/tools" not in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "done ['fail']"
    assert lines[1].startswith("train.py fail: ")
    assert lines[1].endswith(" s, exit status 1")
    at = lines.index("by line")
    heading = ["time", "share", "runs", "flops", "bytes", "of", "limit", "line"]
    assert lines[at + 1].split() == heading
    assert any("train.py:12 in __call__" in line for line in lines[at:])
    assert any("step: " in line for line in lines[lines.index("by operation") :])
    assert "\x1b" not in done.stdout


def test_a_program_without_kiln(capsys: pytest.CaptureFixture[str]) -> None:
    found = profile.profiled(lambda: None, ["nothing.py"])
    profile.show(found)
    assert "no program ran on the native engine" in capsys.readouterr().out
    assert wrong(profile.trace_of(found)) == []
    assert not options().profile


def test_files_that_cannot_be_written(folder: Path) -> None:
    done = run(folder, "--trace", "none/t.json", "train.py")
    assert done.returncode == 2
    assert done.stderr.splitlines()[1].startswith("none/t.json cannot be written: ")
