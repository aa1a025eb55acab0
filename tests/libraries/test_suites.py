"""The runner of the libraries' own tests: which it finds and chooses, and what it reports."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
from pathlib import Path

import pytest

from tests.libraries.jax_tests.outcomes import FileOutcome, Row, grouped, read, table
from tests.libraries.jax_tests.recording import share
from tests.libraries.jax_tests.report import Report
from tests.libraries.jax_tests.running import Limits, run
from tests.libraries.suites import __main__ as command
from tests.libraries.suites.sources import MissingSuiteError, located
from tests.libraries.suites.table import SUITES, Suite

MADE = Suite("made", "pytest", importlib.metadata.version("pytest"), ("tests/test_*.py",), "made")


@pytest.mark.parametrize(
    ("sizes", "at_most", "each"),
    [
        ([500], 30, 30),
        ([1, 100, 100], 80, 39),
        ([2, 2], 80, 80),
        ([9, 9, 9], 2, 1),
        ([9, 9], 0, 0),
    ],
)
def test_files_share_the_sample(sizes: list[int], at_most: int, each: int) -> None:
    assert share(sizes, at_most) == each
    assert not at_most or sum(min(size, each) for size in sizes) <= max(at_most, len(sizes))


def _made(source: Path) -> None:
    """Write a library with three files of tests, in a package of the name of kiln's own."""
    folder = source / "made" / "tests"
    folder.mkdir(parents=True)
    for name, text in (
        ("__init__.py", "WORD = 'here'"),
        ("test_lost.py", "import nothing_of_that_name"),
        ("test_examples.py", "def test_picture(): assert False"),
        (
            "test_made.py",
            "import jax\n"
            "from tests import WORD\n"
            "def test_kiln(): assert 'kiln' in jax.jit.__module__ and WORD == 'here'\n"
            "def test_wrong(): assert WORD == 'there'\n",
        ),
    ):
        (folder / name).write_text(text)


def test_a_suite_runs_on_kiln(tmp_path: Path) -> None:
    _made(tmp_path)
    suite = dataclasses.replace(MADE, without=("tests/test_examples",))
    place = located(suite, tmp_path, tmp_path)
    assert place.names == ("tests/test_lost.py", "tests/test_made.py")
    found = run(place.session("kiln"), Limits())
    assert found.tests == {
        "tests/test_made.py::test_kiln": "passed",
        "tests/test_made.py::test_wrong": "failed",
    }
    assert (found.collected, found.sizes) == (2, {"tests/test_made.py": 2})
    assert len(found.chosen) == 2
    assert list(found.unloaded) == ["tests/test_lost.py"]
    groups = grouped(found, ["tests/test_made.py::test_kiln", "tests/test_lost.py::test_any"])
    assert list(groups.values()) == [["tests/test_lost.py::test_any"]]
    assert "nothing_of_that_name" in next(iter(groups))


def test_only_the_files_of_the_expected_tests_run(tmp_path: Path) -> None:
    _made(tmp_path)
    place = located(MADE, tmp_path, tmp_path)
    arguments = place.session("jax", ["tests/test_made.py::test_kiln"]).arguments
    files = [name for name in arguments if name.endswith(".py")]
    assert [Path(name).name for name in files] == ["test_made.py"]
    assert "suites.on_kiln" not in arguments
    assert "suites.on_kiln" in place.session("kiln", []).arguments


def test_every_kth_file_is_in_a_sample(tmp_path: Path) -> None:
    _made(tmp_path)
    place = located(MADE, tmp_path, tmp_path)
    assert place.sampled(2).names == ("tests/test_examples.py", "tests/test_made.py")
    assert place.sampled(0) == place


def test_a_converter_writes_the_tests(tmp_path: Path) -> None:
    _made(tmp_path)
    script = "import sys; print(open(sys.argv[-1]).read().replace('there', sys.argv[1]))"
    (tmp_path / "made" / "convert.py").write_text(script)
    suite = dataclasses.replace(MADE, converter="convert.py")
    place = located(suite, tmp_path, tmp_path / "built")
    place.session("jax", ["tests/test_made.py::test_wrong"])
    converted = (tmp_path / "built").rglob("*.py")
    assert [path.name for path in converted] == ["test_made.py"]
    assert "WORD == '--numpy_to_jax'" in (place.root / "tests/test_made.py").read_text()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"distribution": "nothing-of-that-name"}, "is not installed"),
        ({"release": "0.0"}, "the table has 0.0"),
        ({"home": "elsewhere"}, "there is no folder"),
        ({"tests": ("*.cc",)}, "there are no tests"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, changes: dict[str, str], text: str) -> None:
    _made(tmp_path)
    with pytest.raises(MissingSuiteError, match=text):
        located(dataclasses.replace(MADE, **changes), tmp_path, tmp_path)


def test_sources_have_to_be_named() -> None:
    with pytest.raises(MissingSuiteError, match="no sources"):
        located(MADE, None, Path())


def test_records_name_the_files_that_do_not_load() -> None:
    found = read([json.dumps({"load": "E   ImportError: no", "file": "a_test.py"})])
    assert not found.load
    assert grouped(found, ["a_test.py::b", "c_test.py::d"]) == {
        "not loaded: ImportError: no": ["a_test.py::b"],
        "the test is not there": ["c_test.py::d"],
    }


def test_the_command_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _made(tmp_path)
    expected = [f"tests/test_made.py::{name}" for name in ("test_kiln", "test_wrong")]
    outcome = FileOutcome(
        chosen=expected,
        tests={expected[0]: "passed", expected[1]: "failed"},
        texts={expected[1]: "ValueError: no"},
    )
    other = dataclasses.replace(MADE, name="other", release="0.0")
    monkeypatch.setattr(command, "SUITES", (MADE, other))
    monkeypatch.setattr(command, "STORED", tmp_path / "passing.json")
    monkeypatch.setattr(command, "run", lambda *args, **kwargs: outcome)
    places = ["--source", str(tmp_path), "--report", str(tmp_path)]
    command.main(places)
    assert "jax was never asked" in capsys.readouterr().out
    command.main(["made", "--only-jax", *places])
    stored = json.loads(command.STORED.read_text(encoding="utf-8"))
    assert stored["made"]["passed"] == expected[:1]
    stored["made"]["passed"] = expected
    command.STORED.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(SystemExit, match="made"):
        command.main(places)
    assert "other: not run" in capsys.readouterr().out
    text = (tmp_path / "report.md").read_text()
    assert "| library |" in text
    assert "| made | 2 | 2 | 2 | 1 | 50 % |" in text
    assert "- 1: ValueError: no: `tests/test_made.py::test_wrong`" in text
    with pytest.raises(SystemExit, match="not in the table"):
        command.main(["unknown", *places])


def test_goals_are_reached_or_not() -> None:
    assert command.reaches(Row("a", 60, 50, 49), 98)
    assert not command.reaches(Row("a", 60, 49, 48), 98)
    assert command.reaches(Row("a", 60, 0, 0), 98)


def test_files_count_by_how_many_tests_they_have() -> None:
    """Of the large file two of two pass, of the small one one of two, and one is not on jax."""
    parts = (Row("a", 2, 2, 2, 990), Row("b", 2, 2, 1, 10), Row("c", 2, 0, 0, 500))
    whole = Row("all", 6, 4, 3, 1500, parts)
    assert whole.expected == 1000
    assert whole.share == pytest.approx(0.995)
    assert command.reaches(whole, 99)
    assert not command.reaches(whole, 100)
    assert "| all | 1500 | 6 | 4 | 3 | 99.5 % |" in table([whole])


def test_a_report_has_the_files_of_a_suite(tmp_path: Path) -> None:
    tests = ["a.py::x", "a.py::y", "b.py::x"]
    files = {"a.py": {"collected": 8, "chosen": 2}, "b.py": {"collected": 2, "chosen": 2}}
    stored = {"passed": tests, "chosen": 4, "collected": 10, "files": files}
    found = FileOutcome(chosen=tests, tests=dict.fromkeys(tests[1:], "passed"))
    row = Report(tmp_path, "library").add("made", stored, found)
    assert row.parts == (Row("a.py", 2, 2, 1, 8), Row("b.py", 2, 1, 1, 2))
    assert row.share == pytest.approx((4 + 1) / (8 + 1))


def test_stored_answers_are_of_suites_in_the_table() -> None:
    stored = json.loads(command.STORED.read_text(encoding="utf-8"))
    known = {suite.name: suite for suite in SUITES}
    assert len(known) == len(SUITES)
    assert stored.keys() <= known.keys()
    for name, entry in stored.items():
        assert entry["release"] == known[name].release
        assert len(entry["passed"]) <= entry["chosen"] <= entry["collected"]
        assert {command.file_of(test) for test in entry["passed"]} <= entry["files"].keys()
        for key in ("chosen", "collected"):
            assert sum(sizes[key] for sizes in entry["files"].values()) == entry[key]


def test_the_plugin_knows_no_package_tests() -> None:
    """A library's own package may have that name."""
    folder = Path(command.__file__).parent
    plugins = (folder / "on_kiln.py", folder.parent / "jax_tests" / "recording.py")
    assert all("from tests" not in _imports(path) for path in plugins)


def _imports(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.startswith(("import ", "from ")))
