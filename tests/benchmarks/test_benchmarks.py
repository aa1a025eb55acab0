"""The harness measures what it says, and the benchmarks still run."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import calls, first_calls, fresh, goals, memory, programs, report, startup
from benchmarks.harness import Case, Row, Timing, measure, once, repeated


def test_columns_take_turns() -> None:
    order: list[str] = []

    def sampler(name: str) -> Any:
        return lambda: float(order.append(name) is None)

    row = measure(Case("case", {"kiln": sampler("kiln"), "jax": sampler("jax")}, rounds=3))
    warm, rounds = order[:2], order[2:]
    assert warm == ["kiln", "jax"]
    assert rounds == ["kiln", "jax", "jax", "kiln", "kiln", "jax"]
    assert row.columns["kiln"].samples == 3
    assert measure(Case("case", {"kiln": sampler("kiln")}, rounds=3), at_most=2) == Row(
        "case", {"kiln": Timing(1.0, 1.0, 2)}
    )


def test_a_repeated_sampler_returns_seconds_per_call_and_waits_for_the_last() -> None:
    calls, waited = [], []
    sample = repeated(lambda: calls.append(1), waited.append)
    seconds = sample()
    assert len(calls) > 1000
    assert 0 < seconds < 1e-4
    assert waited


def test_a_single_sampler_prepares_outside_the_clock() -> None:
    prepared = iter(range(3))
    seen: list[int] = []
    sample = once(lambda: next(prepared), seen.append)
    assert sample() < 0.01
    assert sample() < 0.01
    assert seen == [0, 1]


@pytest.mark.parametrize("name", programs.PROGRAMS)
@pytest.mark.parametrize("equations", [10, 100])
def test_programs_run_and_depend_on_the_salt(name: str, equations: int) -> None:
    make = programs.PROGRAMS[name]
    x = programs.operand(np)
    one, other = (make(np, equations, salt)(x) for salt in (1.25, 1.5))
    assert one.shape == x.shape
    assert np.isfinite(one).all()
    assert not np.array_equal(one, other)


def _rows() -> list[Row]:
    fast, slow = Timing(2e-5, 1e-5, 7), Timing(4e-2, 3e-2, 7)
    return [Row("x + 1", {"kiln": fast, "jax": slow}), Row("alone", {"kiln": slow})]


def test_results_become_a_table() -> None:
    result = report.to_json({"calls": _rows()})
    assert json.loads(json.dumps(result)) == result
    lines = report.table(result["benchmarks"]["calls"]).splitlines()
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == [
        "x + 1",
        "20 µs (10 µs)",
        "40 ms (30 ms)",
        "0.00",
    ]
    assert [cell.strip() for cell in lines[3].split("|")[1:-1]] == [
        "alone",
        "40 ms (30 ms)",
        "",
        "",
    ]
    assert len({len(line) for line in lines}) == 1


def test_results_go_between_the_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "LATEST_JSON", tmp_path / "latest.json")
    monkeypatch.setattr(report, "LATEST_TABLE", tmp_path / "latest.md")
    report.write({"calls": _rows(), "selu": []})
    report.write({"selu": _rows()})
    document = tmp_path / "performance.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n", encoding="utf-8")
    report.fill(document)
    report.fill(document)
    text = document.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert text.count("### calls") == text.count("### selu") == 1
    (tmp_path / "bare.md").write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks the lines"):
        report.fill(tmp_path / "bare.md")


def _benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments, "--rounds", "1", "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        cwd=Path(report.__file__).parents[1],
    )


@pytest.mark.parametrize("name", ["selu"])
def test_a_benchmark_runs(name: str) -> None:
    done = _benchmarks(name)
    assert done.returncode == 0, done.stderr
    assert "kiln / jax" in done.stdout


def test_arrays_over_devices_are_measured() -> None:
    arguments = ["--counts", "8", "--rounds", "1", "--only", "shards in", "--processor"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.devices", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
        cwd=Path(report.__file__).parents[1],
    )
    assert len(done.stdout.splitlines()) == 3


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["calls", "dispatch", "kernels", "modules", "startup", "trace_compile"]
)
def test_a_slow_benchmark_runs(name: str) -> None:
    done = _benchmarks(name)
    assert done.returncode == 0, done.stderr
    assert "kiln / jax" in done.stdout


def test_the_soak_counts_and_judges() -> None:
    found = memory.soak("kiln", shapes=6, last=3)
    assert (found.compiled, found.compiled_again) == (9, 0)
    assert memory.broken_promises(found) == []
    bad = dataclasses.replace(found, grown_mb=400.0, compiled_again=2, left_mb=70.0)
    assert len(memory.broken_promises(bad)) == 3
    assert "| kiln | 6 | 400 MB |" in memory.table([bad])


def test_the_line_through_points_on_a_line() -> None:
    assert memory._line([(x, 3 + 2 * x) for x in (1.0, 2.0, 50.0)]) == pytest.approx((3, 2))


def test_an_unknown_benchmark_is_named() -> None:
    done = _benchmarks("nonsense")
    assert done.returncode != 0
    assert "nonsense" in done.stderr


@pytest.mark.full
def test_two_checkouts_take_turns() -> None:
    repository = Path(report.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.against", str(repository), "dispatch"]
        + ["--only", "1 array", "--rounds", "2"],
        cwd=repository,
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    heading, row = done.stdout.splitlines()
    assert heading.split()[:2] == ["here:", "median"]
    assert row.startswith("dispatch: 1 array")
    assert all(float(ratio) > 0 for ratio in row.split()[-2:])


def test_goals_are_compared_with_what_was_measured() -> None:
    def columns(**seconds: float) -> dict[str, Any]:
        return {name: {"median_s": s, "min_s": s, "samples": 1} for name, s in seconds.items()}

    result = {
        "benchmarks": {
            "first_calls": [
                {"case": "compile selu", "columns": columns(kiln=1.0, jax=10.0)},
                {"case": "compile chain of 100", "columns": columns(kiln=2.0, jax=10.0)},
                {"case": "compile chain of 2000", "columns": columns(kiln=30.0, jax=10.0)},
            ]
        }
    }
    found = {goal.row: value for goal, value in goals.found(result)}
    assert found["compile selu"] == 0.1
    assert found["compile chain of 2000"] == 15.0
    assert found["1 small array, x + 1"] is None
    table = goals.table(result).splitlines()
    assert "| compile selu | JAX | 0.15 | 0.10 |" in table
    assert "| compile chain of 100 | JAX | 0.15 | **0.20** |" in table


def test_goals_are_about_rows_that_there_are() -> None:
    modules = {"calls": calls, "first_calls": first_calls, "fresh": fresh, "startup": startup}
    for group, module in modules.items():
        rows = {case.name for case in module.cases([])}
        for goal in goals.GOALS:
            if goal.group == group:
                assert {goal.row, goal.beside or goal.row} <= rows
