"""What processes know about each other, with two of them in one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kiln.base.errors import JaxRuntimeError, PeerError
from kiln.core.lifelines import Lifelines
from kiln.core.peers import Peers


class Store:
    """What a coordination service keeps, in one process."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.end = threading.Barrier(2)
        self.closed: list[bool] = []

    def set(self, key: str, value: str) -> None:
        self.entries[key] = value

    def directory(self, prefix: str) -> dict[str, str]:
        return {k: v for k, v in dict(self.entries).items() if k.startswith(prefix)}

    def barrier(self, name: str, seconds: float) -> None:
        try:
            self.end.wait(seconds)
        except threading.BrokenBarrierError:
            raise JaxRuntimeError("DEADLINE_EXCEEDED") from None

    def close(self, *, orderly: bool) -> None:
        self.closed.append(orderly)


def pair(patience: float = 60.0) -> tuple[Store, Peers, Peers]:
    store = Store()
    both = [Peers(store, index, 2, patience) for index in range(2)]
    together(*[lambda each=each: each.meet("127.0.0.1", 10.0) for each in both])
    return store, *both


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
        survivor.watched(lambda: None, "more")


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
    assert second.failure() is None


def test_one_that_left_runs_no_more_programs() -> None:
    store, first, second = pair()
    first.run((0, 1), lambda: None, "step")
    second.run((0, 1), lambda: None, "step")
    together(lambda: second.leave(0.5), lambda: until(lambda: 1 in first.left))
    assert store.closed == [False]
    # It may still be in the last one that both have begun.
    first._runs["0,1"] = 0
    assert first.run((0, 1), lambda: time.sleep(0.3) or 1, "step") == 1
    with pytest.raises(PeerError, match="process 1 has ended without running this program"):
        first.run((0, 1), lambda: time.sleep(20), "step")


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
    with pytest.raises(PeerError, match=r"this is program 1 here, and process 1 has not come"):
        first.agree((0, 1), "step", "abc")


def test_strangers_are_not_let_in() -> None:
    heard: list[Any] = []
    hub = Lifelines(0, 5.0, lambda *what: heard.append(what), heard.append, lambda: None)
    port = hub.listen(2, "127.0.0.1").split()[0]
    stranger = Lifelines(1, 5.0, lambda *_: None, lambda _: None, lambda: None)
    stranger.connect("127.0.0.1", f"{port} wrong", 5.0)
    stranger.send({"kind": "failed", "text": "a lie"})
    assert not hub.all_have_come(0.2)
    assert heard == []
