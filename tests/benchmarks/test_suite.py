"""The suite measures what it says, and every row runs and agrees with JAX."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.suite import collection, command, measuring, results, row
from benchmarks.suite.peers import PEERS
from tests.benchmarks.agreement import disagreements

CHECKED = [PEERS["kiln"], PEERS["jax"], PEERS["numpy"]]
SLICE = collection.ROWS[::5]
"""Every fifth row, so that each kind is there: the others are of the full suite."""


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    for peer in CHECKED:
        peer.load()


def test_a_slice_of_the_rows_agrees_with_jax() -> None:
    assert {one.kind for one in SLICE} >= set(row.KINDS) - {"large outputs"}
    assert disagreements(SLICE, [PEERS["kiln"], PEERS["numpy"]], CHECKED) == []


@pytest.mark.full
@pytest.mark.parametrize("kind", row.KINDS)
def test_every_row_agrees_with_jax(kind: str) -> None:
    rows = [one for one in collection.ROWS if one.kind == kind]
    assert disagreements(rows, [PEERS["kiln"], PEERS["numpy"]], CHECKED) == []


@pytest.mark.full
@pytest.mark.parametrize("name", ["torch", "numba"])
def test_every_row_of_a_peer_agrees_with_jax(name: str) -> None:
    missing = PEERS[name].missing()
    if missing:
        pytest.skip(missing)
    PEERS[name].load()
    assert disagreements(collection.ROWS, [PEERS[name]], CHECKED) == []


def test_a_row_is_measured_by_turns() -> None:
    [one] = collection.chosen(["selu 1e3"])
    cells = measuring.measure(one, CHECKED, seconds=0.001, tiny=True)
    assert list(cells) == ["kiln", "jax", "numpy"]
    for name, cell in cells.items():
        assert cell["samples"] >= 3
        assert 0 < cell["min_s"] <= cell["median_s"]
        assert ("first_s" in cell) == (name != "numpy")


def test_a_wrong_or_failing_peer_is_not_timed() -> None:
    [one] = collection.chosen(["selu 1e3"])
    work = one.build(*one.tiny)
    wrong = dataclasses.replace(work, plain=lambda x: x)
    cells = measuring.measure(
        dataclasses.replace(one, build=lambda n: wrong), CHECKED, 0.001, tiny=True
    )
    assert cells["numpy"]["wrong"].startswith("array 0: error")
    assert "median_s" not in cells["numpy"]
    failing = dataclasses.replace(work, plain=lambda x: 1 / 0)
    cells = measuring.measure(
        dataclasses.replace(one, build=lambda n: failing), CHECKED, 0.001, tiny=True
    )
    assert cells["numpy"] == {"failed": "ZeroDivisionError: division by zero"}


@pytest.mark.parametrize(
    ("result", "reference", "word"),
    [
        (np.ones(3), np.ones(3), None),
        (np.ones(3) + 1e-7, np.ones(3), None),
        (np.ones(3) + 1e-3, np.ones(3), "error 1.0e-03"),
        (np.ones(3), np.ones(4), "shape (3,)"),
        ([np.ones(3)], [np.ones(3), 1.0], "1 arrays instead of 2"),
        (np.array([np.nan, 1]), np.array([np.nan, 1]), "not finite"),
        (np.array([0.0, 1]), np.array([np.nan, 1]), "not finite"),
        (np.array([1, 2]), np.array([1, 3]), "1 of 2 numbers differ"),
        ({"b": 1.0, "a": 2.0}, {"a": 2.0, "b": 1.0}, None),
    ],
)
def test_differences_in_words(result: Any, reference: Any, word: str | None) -> None:
    found = measuring.difference(result, reference, 1e-5, shapes_only=False)
    assert (found is None) if word is None else word in (found or "")


def test_peak_memory_counts_what_a_block_takes() -> None:
    with measuring.Peak() as peak:
        np.ones(1 << 23).sum()
    if peak.grown is None:
        pytest.skip("this system does not tell the peak of resident memory")
    assert 60 << 20 < peak.grown < 200 << 20


def test_rows_are_chosen_by_text_and_kind() -> None:
    assert collection.chosen([]) == collection.ROWS
    assert len(collection.ROWS) >= 60
    assert {one.kind for one in collection.chosen([], ["scans"])} == {"scans"}
    with pytest.raises(ValueError, match="nonsense"):
        collection.chosen(["nonsense"])
    with pytest.raises(ValueError, match="nonsense"):
        collection.chosen([], ["nonsense"])
    with pytest.raises(ValueError, match="nonsense"):
        row.Row("x", "nonsense", lambda: None, (), ())  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("number", "done"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGTERM, 0)]
)
def test_a_run_that_is_told_to_stop_writes_what_it_has(
    number: signal.Signals, done: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = collection.chosen(["selu 1e3", "sort 1e3"])
    before = [(one, signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM)]

    def measured(one: row.Row, *_: object) -> dict[str, Any]:
        if one is rows[done]:
            os.kill(os.getpid(), number)
        return {"kiln": {"median_s": 1.0, "min_s": 1.0}}

    monkeypatch.setattr(command, "measure", measured)
    monkeypatch.setattr(command, "restrict_threads", lambda name, threads: None)
    monkeypatch.setattr(command.logging, "disable", lambda level: None)
    # As a shell leaves it for processes in the background.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        parser = command.parser_of("suite", None, PEERS, rows)
        arguments = parser.parse_args(["--peers", "kiln", "--output", str(tmp_path)])
        command.run("suite", rows, PEERS, parser, arguments)
    finally:
        for one, handler in before:
            signal.signal(one, handler)
    written = json.loads((tmp_path / "suite.json").read_text(encoding="utf-8"))
    assert [line["row"] for line in written["rows"]] == [x.name for x in rows[:done]]
    assert written["settings"]["peers"] == ["kiln"]


def _lines() -> list[dict[str, Any]]:
    first, second = collection.chosen(["selu 1e3", "sort 1e3"])
    fast, slow = {"median_s": 1e-6, "min_s": 1e-6}, {"median_s": 4e-6, "min_s": 2e-6}
    return [
        results.line(first, {"kiln": fast, "jax": slow, "torch": {"wrong": "shape"}}),
        results.line(second, {"kiln": slow, "jax": slow, "numpy": {**fast, "peak_bytes": 1 << 20}}),
    ]


def test_results_become_means_a_table_and_a_picture(tmp_path: Path) -> None:
    result = results.whole(_lines(), {"threads": 2})
    means = result["means"]
    assert means["all rows"]["against_jax"] == pytest.approx(2)
    assert means["all rows"]["against_best"] == pytest.approx(1)
    assert means["emitted code"]["against_jax"] == pytest.approx(4)
    assert means["kernels"]["against_best"] == pytest.approx(0.25)
    results.write(result, tmp_path)
    assert json.loads((tmp_path / "suite.json").read_text()) == json.loads(json.dumps(result))
    text = (tmp_path / "suite.md").read_text(encoding="utf-8")
    assert "- selu 1e3, torch: shape" in text
    assert "| sort 1e3 | 4 µs (2 µs) |" in text
    picture = pytest.importorskip("benchmarks.suite.picture", reason="needs matplotlib")
    picture.draw(result, tmp_path / "suite.svg")
    drawn = (tmp_path / "suite.svg").read_text(encoding="utf-8")
    assert "sort 1e3" in drawn
    assert "2 rows: 2.00 times JAX, 1.00 times the best peer" in drawn
