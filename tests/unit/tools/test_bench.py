"""`kiln bench`: which functions are timed, and what is printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kiln.__main__ import main

FILE = """\
import kiln.numpy as jnp


def bench_sum(a=jnp.ones((8, 8))):
    return a.sum()


def bench_product(a=jnp.ones((8, 8)), b=2.0):
    return a @ a * b


def helper(a):
    return a
"""


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    # Not all that were loaded meanwhile: kiln's own would be imported a second time.
    sys.modules.pop("timed_here", None)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "timed_here.py"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--seconds", "0.01", *words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_table(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file) == 0
    title, heading, *rows = capsys.readouterr().out.splitlines()
    assert title == f"{file}, jitted"
    assert heading.split() == ["function", "first", "call", "median", "minimum", "calls"]
    assert [row.split()[0] for row in rows] == ["bench_sum", "bench_product"]


def test_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", file, "prod") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert list(found) == ["function", "first_call", "median", "minimum", "calls"]
    assert found["function"] == "bench_product"
    assert 0 < found["minimum"] <= found["median"] < found["first_call"]
    assert found["calls"] >= 5


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("x = 1", "no function begins with bench_"),
        ("def bench_f(x): return x", "the parameter x of bench_f has no default"),
        ("def bench_f(x=1): return x", "bench_f have no 'another'"),
    ],
)
def test_errors_have_three_lines(
    text: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong_here.py"
    path.write_text(text, encoding="utf-8")
    assert run(str(path), *["another"] * ("another" in wrong)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith(wrong)


def test_files_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "none.py", tmp_path):
        assert run(str(path)) == 2
        assert capsys.readouterr().err.splitlines()[1] == f"{path} is not a Python file"
