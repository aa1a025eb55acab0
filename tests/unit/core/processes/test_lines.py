"""Connections that carry messages, and what comes over them that is none."""

from __future__ import annotations

import json
import os
import resource
import socket
import threading
import time
from typing import Any

import pytest

from kiln.core.processes.lines import LONGEST_LINE, LONGEST_UNAUTHENTICATED, Line


def lines() -> tuple[Line, socket.socket]:
    mine = socket.create_server(("127.0.0.1", 0))
    theirs = socket.create_connection(mine.getsockname())
    accepted, _ = mine.accept()
    mine.close()
    return Line(accepted), theirs


def received(line: Line) -> list[Any] | None:
    line.connection.setblocking(True)
    return line.receive()


def test_messages_may_come_in_pieces() -> None:
    line, other = lines()
    other.sendall(b'{"kind": "be')
    assert received(line) == []
    other.sendall(b'at"}\n{"kind": "gone"}\n')
    assert received(line) == [{"kind": "beat"}, {"kind": "gone"}]
    other.close()
    assert received(line) is None


@pytest.mark.parametrize(
    "bytes_",
    [
        *(b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", b"\xff\xfe\n", b"\n", b"{} {}\n"),
        *(b"[" * 60_000 + b"\n", b"[" * 4_000 + b"\n", b'{"a":' * 600 + b"\n"),
        *(b'{"kind": ["deep"]}\n', b'{"runs": {"0,1": {}}}\n', b'{"kind": null}\n'),
        b'{"number": ' + b"9" * 4_000 + b"}\n" + b"\0\n",
    ],
)
def test_what_is_no_message_closes_the_connection(bytes_: bytes) -> None:
    line, other = lines()
    other.sendall(bytes_)
    assert received(line) is None


def test_a_line_without_end() -> None:
    line, other = lines()
    line.rank = 1
    line._received = b" " * LONGEST_LINE
    other.sendall(b"   ")
    assert received(line) is None


def test_a_stranger_is_heard_less_long() -> None:
    text = json.dumps({"text": "x" * LONGEST_UNAUTHENTICATED}).encode() + b"\n"
    line, other = lines()
    other.sendall(text)
    assert received(line) is None
    line, other = lines()
    line.rank = 1
    other.sendall(text)
    assert received(line) is not None


def test_waiting_for_one_message() -> None:
    line, other = lines()
    with pytest.raises(TimeoutError):
        line.next(time.monotonic() + 0.05)
    other.sendall(b'{"a": 1}\n{"a": 2}\n{"a": 3')
    assert line.next(time.monotonic() + 10) == {"a": 1}
    other.sendall(b"}\n")
    assert line.next(time.monotonic() + 10) == {"a": 2}
    assert line.next(time.monotonic() + 10) == {"a": 3}
    other.close()
    with pytest.raises(ConnectionError):
        line.next(time.monotonic() + 10)
    assert line.is_open
    line.connection.close()
    assert not line.is_open


def test_waiting_with_many_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("this system opens fewer files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        line, other = lines()
        assert line.connection.fileno() >= 1024
        with pytest.raises(TimeoutError):
            line.next(time.monotonic() + 0.05)
        other.sendall(b'{"a": 1}\n')
        assert line.next(time.monotonic() + 10) == {"a": 1}
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_message_that_the_system_takes_in_parts_arrives_whole() -> None:
    line, other = lines()
    line.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    text = "x" * (LONGEST_LINE // 2)
    sender = threading.Thread(target=line.send, args=({"text": text},))
    sender.start()
    time.sleep(0.1)
    reader = Line(other)
    reader.rank = 1
    assert reader.next(time.monotonic() + 20) == {"text": text}
    sender.join(20)


def test_a_part_of_a_message_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kiln.core.processes.lines.LONGEST_SEND_S", 0.1)
    line, other = lines()
    line.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    text = "x" * (1 << 24)
    line.send({"text": text})
    # The next message would begin in the middle of that one.
    line.send({"kind": "beat"})
    reader, found = Line(other), []
    reader.rank = 1
    with pytest.raises(ConnectionError):
        found.append(reader.next(time.monotonic() + 20))
    assert found == []
