"""The runner of JAX's own tests: what it chooses, records, and makes of errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.libraries.jax_tests import __main__ as command
from tests.libraries.jax_tests.outcomes import (
    FileOutcome,
    Row,
    grouped,
    listing,
    load_reason,
    read,
    reason,
    table,
)
from tests.libraries.jax_tests.recording import chosen
from tests.libraries.jax_tests.running import Limits, run_file

NAMES = [f"Test::test{i}" for i in range(10)]


@pytest.mark.parametrize(("at_most", "step"), [(0, 1), (3, 4), (5, 2), (10, 1), (99, 1)])
def test_every_kth_is_chosen(at_most: int, step: int) -> None:
    found = chosen(NAMES, at_most=at_most)
    assert found == NAMES[::step]
    assert not at_most or len(found) <= at_most


def test_named_ones_are_chosen_in_order_and_others_left_out() -> None:
    assert chosen(NAMES, only=[NAMES[5], NAMES[1], "gone"]) == [NAMES[1], NAMES[5]]
    assert chosen(NAMES, only=NAMES[:3], without=NAMES[1:2]) == [NAMES[0], NAMES[2]]


def test_records_are_read_until_they_break_off() -> None:
    lines = [
        json.dumps({"collected": 9, "chosen": ["a", "b", "c", "d"]}),
        json.dumps({"start": "a"}),
        json.dumps({"test": "a", "outcome": "passed", "text": ""}),
        json.dumps({"start": "b"}),
        json.dumps({"test": "b", "outcome": "passed", "text": ""}),
        json.dumps({"test": "b", "outcome": "failed", "text": "ValueError: no"}),
        json.dumps({"start": "c"}),
        '{"test": "c", "outc',
    ]
    found = read(lines)
    assert (found.collected, found.chosen) == (9, ["a", "b", "c", "d"])
    assert found.tests == {"a": "passed", "b": "failed"}
    assert found.running == "c"
    found = read([json.dumps({"collected": 9, "chosen": ["d"]})], found)
    assert found.chosen == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ValueError: got 3 of 4\n\nmore", "ValueError: got N of N"),
        (
            "kiln.base.errors.ShapeError: add at a.py:3\nshapes differ\ndo this",
            "ShapeError: shapes differ",
        ),
        ("TypeError: f called from /a/b.py:12", "TypeError: f"),
        ("AssertionError: \nNot equal\n x", "AssertionError:"),
        ("<object at 0x7f00>", "<object at N>"),
        ("", "no text"),
    ],
)
def test_reasons(text: str, expected: str) -> None:
    assert reason(text) == expected


def test_reasons_of_files_that_are_not_loaded() -> None:
    text = "a.py:3: in <module>\n    import x\nE   ImportError: no x\n"
    assert load_reason(text) == "ImportError: no x"


def test_failures_are_grouped() -> None:
    outcome = FileOutcome(
        tests={"a": "passed", "b": "failed", "c": "failed", "d": "hung", "e": "skipped"},
        texts={"b": "ValueError: 1", "c": "ValueError: 2"},
    )
    expected = {
        "ValueError: N": ["b", "c"],
        "hung": ["d"],
        "skipped": ["e"],
        "the test is not there": ["f"],
    }
    assert grouped(outcome, "abcdef") == expected
    text = listing({"x_test.py": expected, "y_test.py": {}}, shown=1)
    assert "- 2: ValueError: N: `b`, and 1 more" in text
    assert "y_test" not in text
    outcome.load = "E   ImportError: no x"
    assert grouped(outcome, "b") == {"not loaded: ImportError: no x": ["b"]}


def test_the_table_has_a_line_for_all() -> None:
    rows = [Row("a_test.py", 4, 2, 1, 400), Row("b_test.py", 6, 0, 0), Row("c_test.py", 3, 2, 2)]
    assert table(rows).splitlines()[2:] == [
        "| a_test.py | 400 | 4 | 2 | 1 | 50 % |",
        "| b_test.py | 6 | 6 | 0 | 0 |  |",
        "| c_test.py | 3 | 3 | 2 | 2 | 100 % |",
        "| all | 409 | 13 | 4 | 3 | 75 % |",
        "| by numbers of tests | | | | | 50.5 % |",
    ]


CHECKED = """
import os, sys, time, unittest
import jax
from jax._src import config
from jax._src import test_util as jtu

class Test(unittest.TestCase):
    def test_a(self):
        assert jax.__version__ == "0.10.2" and jtu.WORD == "here"
    def test_b(self):
        raise ValueError("no")
    def test_c(self):
        os._exit(9)
    def test_d(self):
        while True: pass
    def test_e(self):
        time.sleep(300)
    def test_f(self):
        assert not config.enable_x64.value
        with config.enable_x64(True):
            assert jax.numpy.zeros(()).dtype == "float64"
"""


@pytest.mark.full
def test_what_crashes_or_hangs_costs_one_test(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    tests = tmp_path / "tests"
    for path, text in (
        (tests / "made_test.py", CHECKED),
        (tests / "lost_test.py", "raise ValueError('not today')"),
        (tmp_path / "jax" / "_src" / "test_util.py", "WORD = 'here'"),
        (tmp_path / "jax" / "_src" / "util.py", ""),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    limits = Limits(test_s=1.0, silent_s=40.0)
    found = run_file(tests.parent, "made_test.py", "kiln", limits)
    assert found.tests == {
        "Test::test_a": "passed",
        "Test::test_b": "failed",
        "Test::test_c": "crashed",
        "Test::test_d": "failed",
        "Test::test_e": "hung",
        "Test::test_f": "passed",
    }
    assert reason(found.texts["Test::test_b"]) == "ValueError: no"
    assert "processor time" in found.texts["Test::test_d"]
    lost = run_file(tests.parent, "lost_test.py", "kiln", limits)
    assert load_reason(lost.load) == "ValueError: not today"


def test_the_command_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = tmp_path / "passing.json"
    stored.write_text(
        json.dumps({"a_test.py": {"collected": 9, "chosen": 3, "passed": ["b", "c"]}})
    )
    outcome = FileOutcome(tests={"b": "passed", "c": "failed"}, texts={"c": "ValueError: no"})
    monkeypatch.setattr(command, "STORED", stored)
    monkeypatch.setattr(command, "run_file", lambda *args, **kwargs: outcome)
    command.main([str(tmp_path), "a_test.py", "--report", str(tmp_path)])
    text = (tmp_path / "report.md").read_text()
    assert "| a_test.py | 9 | 3 | 2 | 1 | 50 % |" in text
    assert "- 1: ValueError: no: `c`" in text
    with pytest.raises(SystemExit, match="never asked about b_test"):
        command.main([str(tmp_path), "b_test.py", "--report", str(tmp_path)])


def test_stored_answers_are_of_files_that_are_run() -> None:
    stored = json.loads(command.STORED.read_text(encoding="utf-8"))
    assert not stored.keys() & command.NOT_FOR_CPUS
    assert all(
        len(entry["passed"]) <= entry["chosen"] <= entry["collected"] for entry in stored.values()
    )
