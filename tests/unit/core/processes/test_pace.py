"""Stragglers: what processes measure, and what process 0 makes of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kiln.base.options.config import override
from kiln.core.processes import pace
from kiln.core.processes.pace import QUIET_S, Pace, Standings


def test_a_process_measures_the_time_between_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 10.0
    monkeypatch.setattr(pace.time, "monotonic", lambda: clock)
    mine = Pace(3)
    with override(straggler_seconds=2.0):
        # Nothing is known of the time before the first.
        mine.arrive(5.0, "0-2", 1, "first")
        mine.depart()
        mine.arrive(10.9, "0-2", 2, "quick")
        clock = 20.0
        mine.depart()
        mine.arrive(21.5, "0-1", 1, "slow")
        found: Any = mine.message()
        assert found["kind"] == "pace"
        assert found["reached"] == {"all": 2, "0-1": 1}
        ((group, number, took, what),) = json.loads(found["late"])
        assert (group, number, took) == ("0-1", 1, 1500)
        assert re.fullmatch(rf"program 1 \(slow\) at .*{Path(__file__).name}:\d+.*", what)
        again: Any = mine.message()
        assert json.loads(again["late"]) == []
    assert mine.message() is None


def noted(standings: Standings, rank: int, number: int, took: int | None) -> None:
    late = [] if took is None else [["all", number, took, f"program {number} (step) at a.py:1"]]
    standings.note(rank, {"kind": "pace", "reached": {"all": number}, "late": json.dumps(late)})


def test_the_late_one_is_named_when_all_have_come() -> None:
    standings = Standings(3)
    with override(straggler_seconds=2.0):
        noted(standings, 1, 41, 3200)
        noted(standings, 0, 41, None)
        # Whether process 2 was as late is not known yet.
        assert standings.reports(0.0) == []
        noted(standings, 2, 40, None)
        assert standings.reports(0.0) == []
        noted(standings, 2, 42, None)
        assert standings.reports(0.0) == [
            "process 1 is late: it has reached program 41 (step) at a.py:1 3.2 s after the end of "
            "the program before; the first process took less than 1 s"
        ]
        assert standings.reports(0.0) == []


@pytest.mark.parametrize(("took", "is_reported"), [(9000, True), (7000, False)])
def test_what_all_take_is_not_late(took: int, is_reported: bool) -> None:
    """All save a checkpoint, say."""
    standings = Standings(2)
    with override(straggler_seconds=2.0):
        noted(standings, 0, 5, 6000)
        noted(standings, 1, 5, took)
        found = standings.reports(0.0)
    assert len(found) == is_reported
    assert not found or "process 1 is late" in found[0]
    assert not found or found[0].endswith(
        "9.0 s after the end of the program before; the first process took 6.0 s"
    )


def test_less_than_the_limit_is_not_reported() -> None:
    standings = Standings(2)
    with override(straggler_seconds=2.0):
        noted(standings, 0, 5, None)
        noted(standings, 1, 5, 1900)
        assert standings.reports(0.0) == []


def test_a_process_is_reported_now_and_then() -> None:
    standings = Standings(2)
    found = []
    with override(straggler_seconds=2.0):
        for number in range(10):
            noted(standings, 1, number + 1, 3000)
            noted(standings, 0, number + 1, None)
            found.append(standings.reports(number * QUIET_S / 5))
    assert [len(each) for each in found] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert "process 1 is late, the last of 5 times: it has reached program 6" in found[5][0]
