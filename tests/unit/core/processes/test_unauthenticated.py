"""Unauthenticated connections to the port of process 0: they are rejected, and delay no process."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kiln.base.errors import JaxRuntimeError, PeerError
from kiln.core.processes import handshake, lifelines
from kiln.core.processes.joining import JoinRequest
from kiln.core.processes.peers import Peers
from tests.unit.core.processes.test_peers import Connector, Store, free_port, together, until

TOKEN = "known to the processes alone"
HELLO = {"kind": "hello", "rank": 1, "count": 2}


class Meeting:
    """Process 0 of a program, which waits for process 1."""

    def __init__(self, host: str = "127.0.0.1", seconds: float = 20.0, token: str = TOKEN) -> None:
        self.host, self.seconds, self.token = host, seconds, token
        self.port, self.connector = free_port(), Connector()
        self.first = Peers(0, 2, 60.0, token)
        self.outcome: list[Any] = []
        self.thread = threading.Thread(target=self._wait, daemon=True)
        self.thread.start()
        until(self.connects)

    def _request(self, index: int, seconds: float) -> JoinRequest:
        return JoinRequest(self.host, self.port, index, 2, self.host, seconds, 10.0)

    def _wait(self) -> None:
        request = self._request(0, self.seconds)
        self.outcome.extend(together(lambda: self.first.meet(request, self.connector)))

    def connects(self) -> bool:
        """Tell whether process 0 listens."""
        with contextlib.suppress(OSError):
            self.stranger().close()
            return True
        return False

    def stranger(self) -> socket.socket:
        """Return a connection that does not authenticate."""
        return socket.create_connection((self.host, self.port), timeout=20)

    def asked(self, stranger: socket.socket) -> str:
        """Return the nonce of the challenge of process 0."""
        text = stranger.makefile("r").readline()
        return str(json.loads(text)["nonce"])

    def second(self, token: str = TOKEN, seconds: float = 20.0) -> Any:
        """Let process 1 join; return its error, or None."""
        found = Peers(1, 2, 60.0, token)
        return together(lambda: found.meet(self._request(1, seconds), self.connector))[0]

    def succeeds(self) -> None:
        """Let process 1 join; check that nothing has failed."""
        assert self.second() is None
        self.thread.join(20)
        assert self.outcome == [None]
        assert self.first.failure() is None
        assert list(self.first._lifelines._lines) == [1]
        assert not self.first._lifelines._unauthenticated


def said(stranger: socket.socket, *messages: Any) -> None:
    """Send messages or bytes, whether they are read or not."""
    for each in messages:
        data = each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n"
        with contextlib.suppress(OSError):
            stranger.sendall(data)


def is_closed(stranger: socket.socket) -> bool:
    """Wait until process 0 closes a connection; tell whether it did."""
    stranger.settimeout(20)
    end = time.monotonic() + 20
    with contextlib.suppress(ConnectionError):
        while stranger.recv(4096):
            if time.monotonic() > end:
                return False
    return True


@pytest.mark.parametrize(
    "words",
    [
        b"[" * 60_000 + b"\n",
        b"[" * 4_000 + b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\xff\n",
        b"9" * 4_000 + b"\n",
        b"{}\n",
        b'{"kind": "failed", "rank": 0, "text": "no"}\n',
        b'{"kind": "hello", "rank": "1", "count": 2, "nonce": "", "proof": ""}\n',
        b'{"kind": "hello", "rank": 1e999, "count": NaN, "nonce": 1, "proof": []}\n',
        json.dumps(HELLO).encode() + b"\n",
        b"x" * 100_000,
    ],
    ids=lambda words: words[:12],
)
def test_garbage(words: bytes) -> None:
    meeting = Meeting()
    stranger = meeting.stranger()
    said(stranger, words)
    assert is_closed(stranger)
    meeting.succeeds()


def test_silence_and_half_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = Meeting()
    strangers = [meeting.stranger() for _ in range(20)]
    for stranger in strangers[::2]:
        said(stranger, b'{"kind": "hel')
    until(lambda: len(meeting.first._lifelines._unauthenticated) == 20)
    # No thread waits for them, and they time out at some point.
    monkeypatch.setattr(lifelines, "LONGEST_S", 0.0)
    assert all(map(is_closed, strangers))
    monkeypatch.undo()
    meeting.succeeds()


def test_processes_meet_beside_silent_strangers() -> None:
    meeting = Meeting()
    strangers = [meeting.stranger() for _ in range(20)]
    meeting.succeeds()
    # They are not kept.
    assert all(map(is_closed, strangers))


@pytest.mark.parametrize("others", [50, pytest.param(900, marks=pytest.mark.full)])
def test_many_connections(others: int) -> None:
    meeting = Meeting()
    first = [meeting.stranger() for _ in range(100)]
    for _ in range(others):
        meeting.stranger().close()
    assert len(meeting.first._lifelines._unauthenticated) <= lifelines.MOST_UNAUTHENTICATED
    assert all(map(is_closed, first[: 100 - lifelines.MOST_UNAUTHENTICATED]))
    meeting.succeeds()


def test_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = Meeting()
    waiting = meeting.stranger()
    until(lambda: meeting.first._lifelines._unauthenticated)
    real, failures = meeting.first._lifelines._listener, [24] * 5

    class Exhausted:
        def accept(self) -> Any:
            if failures:
                raise OSError(failures.pop(), "Too many open files")
            return real.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    monkeypatch.setattr(meeting.first._lifelines, "_listener", Exhausted())
    assert meeting.second() is None
    assert not failures
    assert is_closed(waiting)


@pytest.mark.parametrize("token", ["another", ""])
def test_a_wrong_token(token: str) -> None:
    meeting = Meeting()
    error = meeting.second(token)
    assert isinstance(error, JaxRuntimeError)
    assert "its token is not that of process 0" in str(error)
    assert "the same KILN_COORDINATOR_TOKEN" in str(error)
    meeting.succeeds()


def hello(asked: str, token: str) -> dict[str, Any]:
    """Return the message of process 1."""
    proof = handshake.proof(token, "hello", asked, "mine", 1, 2)
    return {**HELLO, "nonce": "mine", "proof": proof}


def test_what_was_said_before_proves_nothing() -> None:
    meeting = Meeting()
    heard = meeting.stranger()
    earlier = hello(meeting.asked(heard), TOKEN)
    again = meeting.stranger()
    assert meeting.asked(again) != meeting.asked(meeting.stranger())
    said(again, earlier)
    assert is_closed(again)
    meeting.succeeds()


def test_a_stranger_does_not_take_a_rank() -> None:
    meeting = Meeting()
    for token in ("", "guessed"):
        stranger = meeting.stranger()
        said(stranger, hello(meeting.asked(stranger), token))
        assert is_closed(stranger)
    assert meeting.first._lifelines.absent() == [1]
    meeting.succeeds()


def test_one_that_comes_and_keeps_silent_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without a token, anybody may come.
    monkeypatch.setattr("kiln.core.processes.peers.LEAST_TO_CONNECT_S", 0.2)
    meeting = Meeting(seconds=1.0, token="")
    monkeypatch.setattr(meeting.connector, "connect", lambda *_: time.sleep(60))
    stranger = meeting.stranger()
    said(stranger, hello(meeting.asked(stranger), ""))
    meeting.thread.join(20)
    (error,) = meeting.outcome
    assert isinstance(error, JaxRuntimeError)
    assert "not all have connected within 1 seconds" in str(error)


def test_two_that_know_the_token_may_say_nonsense() -> None:
    meeting = Meeting()
    stranger = meeting.stranger()
    said(stranger, hello(meeting.asked(stranger), TOKEN))
    meeting.thread.join(20)
    assert meeting.outcome == [None]
    said(stranger, {"kind": "left", "runs": 3}, {"kind": "runs", "number": "x"})
    said(stranger, {"kind": "start", "port": "none"})
    until(meeting.first.failure)
    assert meeting.first.failure() == "process 1 has ended"
    with pytest.raises(PeerError):
        meeting.first.check("asked")
    assert any(thread.name == "kiln lifelines" for thread in threading.enumerate())


@contextlib.contextmanager
def impostor(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Listen where process 0 should, and give the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    answer(server.accept()[0])

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"[" * 60_000,
        b'{"kind": "challenge", "nonce": "asked"}\n{"kind": "welcome", "proof": "guessed"}\n',
        b'{"kind": "start", "port": 1}\n',
    ],
    ids=lambda words: words[:12],
)
def test_one_that_is_not_process_0_is_not_believed(words: bytes) -> None:
    kept: list[socket.socket] = []

    def answer(connection: socket.socket) -> None:
        kept.append(connection)
        said(connection, words)

    with impostor(answer) as port:
        request = JoinRequest("127.0.0.1", port, 1, 2, "127.0.0.1", 0.4, 10.0, TOKEN)
        (error,) = together(lambda: Peers(1, 2, 60.0, TOKEN).meet(request, Connector()))
    assert isinstance(error, JaxRuntimeError)
    assert "what answers there is not process 0 of this program" in str(error)


def test_addresses_of_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("needs IPv6")
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("needs the address ::1")
    meeting = Meeting("::1")
    stranger = meeting.stranger()
    said(stranger, b"[" * 60_000 + b"\n")
    assert is_closed(stranger)
    meeting.succeeds()
    assert isinstance(meeting.connector.store, Store)
