"""The decisions of the leader of an elastic program, without processes and clocks."""

from __future__ import annotations

import json
from typing import Any

from kiln.core.processes.lines import Message
from kiln.core.processes.membership import (
    GONE,
    REPLACEMENT_S,
    SETTLED_S,
    Limits,
    Rounds,
)


def made(count: int, least: int = 2, most: int = 4, restarts: int = 3) -> Rounds:
    """Return rounds of which the first has started."""
    rounds = Rounds(Limits(least, most, restarts), count, 100.0)
    for member in range(count):
        come(rounds, member)
    started(rounds, 0.0)
    return rounds


def come(rounds: Rounds, member: int) -> None:
    rounds.join(member, f"host{member}", f"host{member}:1")
    rounds.ready(member, 1000 + member)


def started(rounds: Rounds, now: float) -> Message:
    """Return the message that starts a round."""
    (found,) = [each for each in rounds.decide(now) if each["kind"] == "start"]
    return found


def kinds(rounds: Rounds, now: float = 1.0) -> list[Any]:
    return [each["kind"] for each in rounds.decide(now)]


def end(rounds: Rounds, member: int, code: int, **how: bool) -> None:
    """Let a worker end, and its supervisor be ready for another."""
    given = {"is_own": True, "is_ordered": False, **how}
    rounds.ended(member, code, f"failed with exit code {code}", **given)
    rounds.ready(member, 2000 + member)


def test_a_round_starts_when_all_are_there() -> None:
    rounds = Rounds(Limits(2, 4, 3), 4, 100.0)
    for member in (3, 0, 2):
        come(rounds, member)
        assert "start" not in kinds(rounds)
    come(rounds, 1)
    first, second = rounds.decide(1.0)
    assert json.loads(first["addresses"]) == {str(m): f"host{m}:1" for m in range(4)}
    assert second == {
        "kind": "start",
        "round": 0,
        "failures": 0,
        "ranks": {"0": 0, "1": 1, "2": 2, "3": 3},
        "host": "host0",
        "port": 1000,
    }
    assert not rounds.reports


def test_enough_start_at_the_deadline() -> None:
    rounds = Rounds(Limits(2, 4, 3), 4, 100.0)
    come(rounds, 1)
    come(rounds, 3)
    assert kinds(rounds, 99.0) == ["members"]
    assert started(rounds, 100.0)["ranks"] == {"1": 0, "3": 1}


def test_too_few_give_up_at_the_deadline() -> None:
    rounds = Rounds(Limits(2, 4, 3), 4, 100.0)
    come(rounds, 1)
    assert rounds.decide(100.0)[-1] == {"kind": "end", "code": GONE}
    assert rounds.reports == [
        "there are 1 supervisors, and a round needs at least 2 processes",
    ]


def test_all_end_well() -> None:
    rounds = made(2)
    end(rounds, 0, 0)
    assert not rounds.decide(1.0)
    end(rounds, 1, 0)
    assert rounds.decide(1.0) == [{"kind": "end", "code": 0}]
    assert not rounds.decide(2.0)


def test_a_failure_starts_all_again() -> None:
    rounds = made(3)
    end(rounds, 2, 1, is_own=False)
    assert rounds.decide(1.0) == [{"kind": "stop", "round": 0, "gentle": 0}]
    end(rounds, 1, -9)
    end(rounds, 0, -15, is_ordered=True)
    again = started(rounds, 1.0)
    assert again["round"] == 1
    assert again["failures"] == 1
    assert again["port"] == 2000
    # The culprit is the one that failed by itself.
    assert rounds.reports == [
        "round 0 of 3 processes has failed: process 1 of 3 (host1) failed with exit code -9; "
        "restart 1 of 3",
        "round 1 starts with 3 processes",
    ]


def test_failures_are_counted() -> None:
    rounds = made(2, restarts=1)
    for code in (7, 7):
        end(rounds, 0, code)
        end(rounds, 1, 1, is_own=False)
        last = rounds.decide(1.0)[-1]
    assert last == {"kind": "end", "code": 7}
    assert rounds.reports[-1].endswith("exit code 7; 1 restarts were allowed")
    signaled = made(1, least=1, restarts=0)
    end(signaled, 0, -9)
    assert signaled.decide(1.0) == [{"kind": "end", "code": 137}]


def test_the_others_go_on_without_a_lost_supervisor() -> None:
    rounds = made(4)
    rounds.lose(0, "has ended")
    assert kinds(rounds) == ["members", "stop"]
    for member in (1, 2, 3):
        end(rounds, member, 1, is_own=False)
    assert started(rounds, 1.0)["ranks"] == {"1": 0, "2": 1, "3": 2}
    assert "supervisor 0 (host0) has ended" in rounds.reports[0]


def test_a_supervisor_that_joins_is_taken_in() -> None:
    rounds = made(3)
    come(rounds, 3)
    # Not at once: a round that has just started goes on.
    assert kinds(rounds, 1.0) == ["members"]
    (stop,) = rounds.decide(SETTLED_S + 1.0)
    assert stop == {"kind": "stop", "round": 0, "gentle": 1}
    for member in range(3):
        end(rounds, member, 75, is_ordered=True)
    assert len(started(rounds, 50.0)["ranks"]) == 4
    assert rounds.failures == 0
    assert rounds.reports == ["round 1 starts with 4 processes; supervisor 3 has joined"]


def test_a_program_that_ends_is_not_started_again_for_one_that_joins() -> None:
    rounds = made(2)
    come(rounds, 2)
    assert "stop" in kinds(rounds, SETTLED_S + 1.0)
    end(rounds, 0, 0)
    end(rounds, 1, 0)
    assert kinds(rounds) == ["end"]


def test_those_beyond_the_most_wait_and_replace_others() -> None:
    rounds = Rounds(Limits(2, 2, 3), 3, 100.0)
    for member in range(3):
        come(rounds, member)
    assert started(rounds, 0.0)["ranks"] == {"0": 0, "1": 1}
    assert not rounds.decide(SETTLED_S + 1.0)
    rounds.lose(1, "has ended")
    assert kinds(rounds) == ["members", "stop"]
    end(rounds, 0, 1, is_own=False)
    assert started(rounds, 1.0)["ranks"] == {"0": 0, "2": 1}


def test_too_few_wait_for_a_replacement() -> None:
    rounds = made(2)
    rounds.lose(1, "has ended")
    end(rounds, 0, 1, is_own=False)
    assert kinds(rounds, 1.0) == ["members"]
    come(rounds, 1)
    assert len(started(rounds, 2.0)["ranks"]) == 2
    rounds.lose(1, "has ended")
    end(rounds, 0, 1, is_own=False)
    rounds.decide(3.0)
    assert rounds.decide(3.0 + REPLACEMENT_S) == [{"kind": "end", "code": GONE}]


def test_one_that_was_asked_to_end_is_no_failure() -> None:
    rounds = made(3)
    rounds.leave(1)
    assert rounds.decide(1.0) == [{"kind": "stop", "round": 0, "gentle": 1}]
    # The others save at the same step, and end by themselves.
    for member in range(3):
        end(rounds, member, 75)
    assert started(rounds, 1.0)["ranks"] == {"0": 0, "2": 1}
    assert rounds.failures == 0
    rounds.lose(1, "has ended")
    assert kinds(rounds) == ["members"]


def test_the_code_of_those_that_were_asked_to_end() -> None:
    rounds = made(2)
    rounds.leave(1)
    rounds.decide(1.0)
    for member in range(2):
        end(rounds, member, 75)
    assert rounds.decide(1.0) == [{"kind": "end", "code": 75}]
