"""Traces of several processes as one, and what their collectives took."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from kiln.tools import processes
from kiln.tools.command_line import WrongUse
from tests.unit.core.processes.test_peers import pair
from tests.unit.tools.trace_format import wrong


def span(name: str, begin: float, end: float, category: str, kind: str = "all-reduce") -> Any:
    """Return a span; times are in milliseconds."""
    shown: dict[str, Any] = {"program": "jit_step"}
    if category == processes.COLLECTIVE:
        shown |= {"kind": kind, "bytes": 64, "devices": 2}
    times = {"ts": 1000.0 * begin, "dur": 1000.0 * (end - begin)}
    return {"ph": "X", "name": name, "cat": category, "pid": 77, "tid": 1, **times, "args": shown}


def trace(*spans: Any) -> Any:
    names = {"name": "process_name", "args": {"name": "kiln profile"}}
    track = {"name": "thread_name", "args": {"name": "collectives"}}
    named = [{"ph": "M", "pid": 77, "tid": tid, **each} for tid, each in enumerate((names, track))]
    return {"traceEvents": [*named, *spans]}


C, O = processes.COLLECTIVE, processes.OPERATION
# The second process comes later, and its clock is a second ahead.
FIRST = trace(span("dot", 0, 2, O), span("sum", 2, 10, C), span("sum", 20, 25, C))
SECOND = trace(
    *(span("dot", 1000, 1007, O), span("sum", 1007, 1010, C), span("sum", 1022, 1025, C))
)


def test_times_are_those_of_process_0() -> None:
    merged = processes.merged([FIRST, SECOND])
    assert wrong(merged) == []
    found = {
        (event["pid"], event["name"], event["ts"] / 1000)
        for event in merged["traceEvents"]
        if event["ph"] == "X"
    }
    assert found == {
        *((0, "dot", 0), (0, "sum", 2), (0, "sum", 20)),
        *((1, "dot", 0), (1, "sum", 7), (1, "sum", 22)),
    }
    names = [
        (event["pid"], event["args"]["name"])
        for event in merged["traceEvents"]
        if event["name"] == "process_name"
    ]
    assert names == [(0, "process 0"), (1, "process 1")]


def test_permutations_do_not_tell_the_time() -> None:
    other = trace(span("sum", 1000, 1010, C, "collective-permute"))
    merged = processes.merged([trace(span("sum", 0, 10, C, "collective-permute")), other])
    assert [e["ts"] for e in merged["traceEvents"] if e["ph"] == "X"] == [0, 1e6]


def test_the_table() -> None:
    (row,) = processes.rows(processes.merged([FIRST, SECOND]))
    assert row[:6] == ("jit_step", "sum", "all-reduce", 64, 2, 2)
    # Process 1 comes last, so that the collective is short there.
    assert (round(row.least, 6), round(row.most, 6), row.last) == (0.003, 0.0065, 1)


def test_overlap() -> None:
    assert processes.overlap(processes.merged([FIRST, SECOND])) == pytest.approx((0.019, 0.0))
    computing = trace(span("sum", 0, 10, C), span("dot", 2, 5, O), span("dot", 4, 20, O))
    assert processes.overlap(processes.merged([computing])) == pytest.approx((0.01, 0.008))


def joined(path: Path, first: Any, second: Any, hide: bool = False) -> list[Any]:
    """Return what both processes get."""
    found: list[Any] = [None, None]

    def join(index: int, peers: Any) -> None:
        given = [FIRST, SECOND][index]
        own = path.with_name("elsewhere") if hide and index else path
        try:
            found[index] = processes.joined(own, peers, given)
        except WrongUse as error:
            found[index] = str(error)

    threads = [
        threading.Thread(target=join, args=each, daemon=True) for each in ((0, first), (1, second))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return found


def test_process_0_joins_the_parts(tmp_path: Path) -> None:
    _, first, second = pair()
    found = joined(tmp_path / "t.json", first, second)
    assert found == [processes.merged([FIRST, SECOND]), None]
    assert list(tmp_path.iterdir()) == []


def test_folders_that_are_not_shared(tmp_path: Path) -> None:
    _, first, second = pair()
    said, other = joined(tmp_path / "t.json", first, second, hide=True)
    assert "t.json.process-1 is not there: the processes do not share a file system" in said
    assert other is None
