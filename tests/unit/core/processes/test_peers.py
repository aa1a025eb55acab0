"""What processes know about each other, with two of them in one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kiln.base.errors import JaxRuntimeError, PeerError
from kiln.base.options.config import override
from kiln.core.processes import exchanges
from kiln.core.processes.joining import JoinRequest
from kiln.core.processes.peers import Peers


class Store:
    """What a coordination service keeps, in one process."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.end = threading.Barrier(2)
        self.closed: list[bool] = []

    def set(self, key: str, value: str) -> None:
        self.entries[key] = value

    def set_first(self, key: str, value: str) -> bool:
        raise NotImplementedError

    def set_bytes(self, key: str, value: bytes) -> None:
        raise NotImplementedError

    def bytes_of(self, key: str) -> bytes | None:
        raise NotImplementedError

    def wait(self, key: str, seconds: float) -> str | None:
        raise NotImplementedError

    def is_preempted_at(self, step: int) -> bool:
        raise NotImplementedError

    def delete(self, key: str) -> None:
        del self.entries[key]

    def barrier(self, name: str, seconds: float) -> None:
        try:
            self.end.wait(seconds)
        except threading.BrokenBarrierError:
            raise JaxRuntimeError("DEADLINE_EXCEEDED") from None

    def close(self, *, orderly: bool) -> None:
        self.closed.append(orderly)


class Connector:
    def __init__(self) -> None:
        self.store = Store()

    def host(self, request: JoinRequest) -> int:
        return 77

    def connect(self, request: JoinRequest, port: int) -> Store:
        assert port == 77
        return self.store


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def request(index: int, port: int, count: int = 2, seconds: float = 10.0) -> JoinRequest:
    return JoinRequest("127.0.0.1", port, index, count, "127.0.0.1", seconds, 10.0)


def pair(patience: float = 60.0, port: int | None = None) -> tuple[Store, Peers, Peers]:
    connector, port = Connector(), port or free_port()
    both = [Peers(index, 2, patience) for index in range(2)]
    met = together(
        *[lambda i=i, p=p: p.meet(request(i, port), connector) for i, p in enumerate(both)]
    )
    assert met == [None, None]
    return connector.store, *both


def together(*calls: Callable[[], Any]) -> list[Any]:
    found: list[Any] = [None] * len(calls)

    def run(i: int) -> None:
        try:
            found[i] = calls[i]()
        except Exception as error:  # noqa: BLE001
            found[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def die(peers: Peers) -> None:
    """Close the connections, as the system does when a process dies."""
    for line in list(peers._lifelines._lines.values()):
        line.connection.shutdown(2)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_dies(victim: int) -> None:
    both = pair()[1:]
    survivor = both[1 - victim]
    waiting = threading.Event()

    def hang() -> None:
        waiting.set()
        time.sleep(60)

    results: list[Any] = []
    thread = threading.Thread(
        target=lambda: results.extend(together(lambda: survivor.run((0, 1), hang, "step"))),
        daemon=True,
    )
    thread.start()
    assert waiting.wait(10)
    die(both[victim])
    thread.join(20)
    (error,) = results
    assert isinstance(error, PeerError)
    assert str(error).splitlines()[:2] == [
        "running step in the processes [0, 1]",
        f"process {victim} has ended",
    ]
    with pytest.raises(PeerError, match=f"process {victim} has ended"):
        survivor.guarded_call(lambda: None, "more")


def test_a_process_that_ends_by_an_exception_says_which() -> None:
    store, first, second = pair()
    second.abandon("process 1 has ended by ValueError: no")
    until(first.failure)
    with pytest.raises(PeerError, match="process 1 has ended by ValueError: no"):
        first.run((0, 1), lambda: None, "step")
    assert store.closed == [False]


def test_a_silent_process() -> None:
    _, first, second = pair(patience=0.4)
    # It says nothing any more, and its connections stay open.
    second._lifelines.stop()
    until(first.failure)
    assert first.failure() == "process 1 has not answered for 0.4 seconds"


def test_a_failed_exchange_of_data_names_who_ended() -> None:
    _, first, second = pair()

    def fail() -> None:
        die(second)
        raise JaxRuntimeError("running step\nGloo all-reduce failed: Connection closed by peer")

    with pytest.raises(PeerError, match="process 1 has ended"):
        first.run((0, 1), fail, "step")


def test_other_errors_are_raised_as_they_are() -> None:
    _, first, _ = pair()

    def fail() -> None:
        raise JaxRuntimeError("RESOURCE_EXHAUSTED")

    with pytest.raises(JaxRuntimeError, match="RESOURCE_EXHAUSTED") as caught:
        first.run((0, 1), fail, "step")
    assert not isinstance(caught.value, PeerError)
    assert first.run((0, 1), lambda: 3, "step") == 3


def test_leaving() -> None:
    store, first, second = pair()
    assert together(lambda: first.leave(10), lambda: second.leave(10)) == [None, None]
    assert store.closed == [True, True]
    die(first)
    for each in (first, second):
        with pytest.raises(PeerError, match="the processes have disconnected"):
            each.run((0, 1), lambda: None, "step")


def test_one_that_left_runs_no_more_programs() -> None:
    store, first, second = pair()
    first.run((0, 1), lambda: None, "step")
    second.run((0, 1), lambda: None, "step")
    together(lambda: second.leave(0.5), lambda: until(lambda: 1 in first.left))
    assert store.closed == [False]
    # It may still be in the last one that both have begun.
    first._runs["0-1"] = 0
    assert first.run((0, 1), lambda: time.sleep(0.3) or 1, "step") == 1
    with pytest.raises(PeerError, match="process 1 has ended without running this program"):
        first.run((0, 1), lambda: time.sleep(20), "step")


def test_a_program_that_hangs_names_who_is_late_and_the_line_of_the_user() -> None:
    _, first, second = pair()
    with override(collective_timeout=1), pytest.raises(PeerError) as caught:
        first.run((0, 1), lambda: time.sleep(20), "step")
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("running step in the processes [0, 1] at ")
    assert f"{Path(__file__).name}:" in lines[0]
    assert lines[1] == "process 1 has not reached program 1 (step) within 1 seconds"
    assert "KILN_COLLECTIVE_TIMEOUT" in lines[2]
    # The late one learns of it in its next program.
    until(second.failure)
    with pytest.raises(PeerError, match="process 1 has not reached program 1"):
        second.run((0, 1), lambda: None, "step")


def test_a_program_that_hangs_in_all_processes_names_none() -> None:
    _, first, second = pair()

    def run(each: Peers) -> None:
        with override(collective_timeout=1):
            each.run((0, 1), lambda: time.sleep(20), "step")

    found = together(lambda: run(first), lambda: run(second))
    wrong = {str(error).splitlines()[1] for error in found}
    assert wrong == {
        "no process is late, and they have not ended program 1 (step) within 1 seconds"
    }


def test_programs_are_compared() -> None:
    _, first, second = pair()
    same = [lambda p=p: p.agree((0, 1), "step", "abc") for p in (first, second)]
    assert together(*same) == [None, None]
    differing = [
        lambda p=p, d=d: p.agree((0, 1), "step", d) for p, d in ((first, "abc"), (second, "xyz"))
    ]
    for error in together(*differing):
        assert isinstance(error, PeerError)
        assert "program 2 differs between the processes" in str(error)


def test_a_program_that_others_do_not_run() -> None:
    _, first, _ = pair(patience=0.5)
    with pytest.raises(
        PeerError, match=r"this process is at program 1; process 1 has not reached it"
    ):
        first.agree((0, 1), "step", "abc")


def test_process_0_does_not_come() -> None:
    with pytest.raises(JaxRuntimeError, match=r"process 0 was not reached within 0\.2 seconds"):
        Peers(1, 2, 60.0).meet(request(1, free_port(), seconds=0.2), Connector())


def test_another_process_does_not_come() -> None:
    port = free_port()
    calls = [
        lambda i=i: Peers(i, 3, 60.0).meet(request(i, port, 3, 0.5 if i == 0 else 30), Connector())
        for i in range(2)
    ]
    for error in together(*calls):
        assert isinstance(error, JaxRuntimeError)
        assert "process 2 has not connected within 0.5 seconds" in str(error)


def test_a_port_that_is_in_use() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as used,
        pytest.raises(JaxRuntimeError, match="it cannot listen at"),
    ):
        Peers(0, 2, 60.0).meet(request(0, used.getsockname()[1]), Connector())


@pytest.mark.parametrize(
    ("index", "count", "said"),
    [
        (1, 4, "process 1 has num_processes=4, and process 0 has 3"),
        (5, 3, "two processes with process_id=5"),
        (2, 3, "two processes with process_id=2"),
    ],
)
def test_processes_that_do_not_fit(index: int, count: int, said: str) -> None:
    port = free_port()
    first, second = Peers(0, 3, 60.0), Peers(2, 3, 60.0)
    waiting = [
        threading.Thread(
            target=together, args=(lambda p=p, i=i: p.meet(request(i, port, 3), Connector()),)
        )
        for i, p in ((0, first), (2, second))
    ]
    for thread in waiting:
        thread.start()
    until(lambda: 2 in first._lifelines._lines)
    with pytest.raises(JaxRuntimeError, match=said):
        Peers(index, count, 60.0).meet(request(index, port, count), Connector())
    # The others wait for the one that fits.
    assert first.failure() is None
    Peers(1, 3, 60.0).meet(request(1, port, 3), Connector())
    for thread in waiting:
        thread.join(20)


def test_texts_are_exchanged() -> None:
    _, first, second = pair()
    for number in range(3):
        said = [
            lambda p=p, n=number: p.exchange(f"topic/{n}", f"from {p.index}", "exchanging")
            for p in (first, second)
        ]
        assert together(*said) == [{"from 0": (0,), "from 1": (1,)}] * 2
    same = [lambda p=p: p.exchange("topic/same", "a text", "exchanging") for p in (first, second)]
    assert together(*same) == [{"a text": (0, 1)}] * 2
    second.abandon("process 1 has ended by ValueError: no")
    with pytest.raises(PeerError, match="ValueError"):
        first.exchange("topic/4", "", "exchanging")


def test_an_exchange_names_who_is_late() -> None:
    _, first, second = pair()
    for each, other in ((first, 1), (second, 0)):
        # Each about a topic of its own.
        with pytest.raises(PeerError, match=rf"process {other} has not reached it within 0\.2 s"):
            each.exchange(f"topic/{other}", "", "exchanging", limit=0.2)


@pytest.mark.parametrize("way", ["exchange", "agree"])
@pytest.mark.parametrize("rank", [0, 1])
def test_one_that_leaves_just_after_an_exchange(rank: int, way: str) -> None:
    _, first, second = pair()
    leaving, staying = (first, second) if rank == 0 else (second, first)

    def say(peers: Peers) -> None:
        if way == "exchange":
            peers.exchange("topic/0", "a text", "exchanging")
        else:
            peers.agree((0, 1), "step", "abc")

    def end() -> None:
        say(leaving)
        leaving.leave(10.0)

    def stay() -> None:
        say(staying)
        with pytest.raises(PeerError, match=f"process {rank} has ended before it"):
            staying.exchange("topic/1", "", "exchanging")
        staying.leave(10.0)

    assert together(end, stay) == [None, None]


def test_a_meeting_names_who_is_late() -> None:
    _, first, second = pair()
    met = [lambda p=p: p.meet_again("sync", "asked", f"{p.index}") for p in (first, second)]
    assert together(*met) == [{"0": (0,), "1": (1,)}] * 2
    with (
        override(collective_timeout=1),
        pytest.raises(PeerError, match="process 1 has not reached it within 1 s"),
    ):
        first.meet_again("sync", "asked", "")


def test_a_text_that_is_told_is_not_waited_for() -> None:
    _, first, second = pair()
    for number, (each, other) in enumerate([(first, second), (second, first)]):
        each.tell(f"topic/{number}", "a")
        told = other.exchange(f"topic/{number}", "b", "exchanging")
        assert told == ({"a": (0,), "b": (1,)} if number == 0 else {"b": (0,), "a": (1,)})


def test_long_messages_arrive_whole() -> None:
    _, first, second = pair()
    long = "x" * exchanges.LONGEST_TEXT
    said = [
        lambda p=p: p.exchange("topic/0", f"{p.index}{long}", "exchanging") for p in (first, second)
    ]
    kept = long[:-1]
    assert together(*said) == [{f"0{kept}": (0,), f"1{kept}": (1,)}] * 2


def test_programs_that_differ_are_found_when_they_are_slow() -> None:
    _, first, second = pair()
    for each in (first, second):
        each.slow = 0.2
        each.run((0, 1), lambda: None, "step", "abc")
    hanging = [
        lambda p=p, d=d: p.run((0, 1), lambda: time.sleep(20), "step", d)
        for p, d in ((first, "abc"), (second, "xyz"))
    ]
    for error in together(*hanging):
        assert isinstance(error, PeerError)
        assert "program 2 differs between the processes" in str(error)
        assert "step abc" in str(error)
        assert "step xyz" in str(error)


def test_the_same_program_may_be_slow() -> None:
    _, first, second = pair()
    for each in (first, second):
        each.slow = 0.1
    slow = [
        lambda p=p, s=s: p.run((0, 1), lambda: time.sleep(s), "step", "abc")
        for p, s in ((first, 0.2), (second, 0.8))
    ]
    assert together(*slow) == [None, None]
    assert first.failure() is None


class Clock:
    """The time, as a test sets it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize("still", [0.0, 100.0])
def test_after_standing_still_a_process_waits_again(
    still: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A laptop that slept has not heard the others meanwhile, nor have they been silent."""
    clock = Clock()
    monkeypatch.setattr("kiln.core.processes.peers.time", clock)
    peers = Peers(0, 2, patience=10.0)
    peers._heard = {1: clock.now}
    clock.now += still
    peers._check_heartbeats()
    for _ in range(10):
        assert peers.failure() is None
        clock.now += 1
        peers._check_heartbeats()
    clock.now += 1
    peers._check_heartbeats()
    assert "not answered for 10 seconds" in (peers.failure() or "")
