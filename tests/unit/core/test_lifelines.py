"""The connections among processes."""

from __future__ import annotations

import queue
import socket
from typing import Any

import pytest

from kiln.core.lifelines import LONGEST_LINE, Lifelines, Line


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


@pytest.mark.parametrize("bytes_", [b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", b"\xff\xfe\n"])
def test_what_is_no_message_closes_the_connection(bytes_: bytes) -> None:
    line, other = lines()
    other.sendall(bytes_)
    assert received(line) is None


def test_a_line_without_end() -> None:
    line, other = lines()
    line._received = b" " * LONGEST_LINE
    other.sendall(b"   ")
    assert received(line) is None


def test_process_0_passes_on_what_the_others_say() -> None:
    heard: list[queue.Queue[Any]] = [queue.Queue() for _ in range(3)]

    def made(index: int) -> Lifelines:
        def hear(rank: int, message: Any) -> None:
            if message["kind"] != "beat":
                heard[index].put((rank, message["kind"]))

        return Lifelines(index, 60.0, hear, lambda rank: heard[index].put(rank), lambda: None)

    hub, *others = map(made, range(3))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    hub.listen(3, "127.0.0.1", port)
    assert hub.absent() == [1, 2]
    for other in others:
        assert other.connect(3, "127.0.0.1", port, 10.0)
    assert hub.all_have_come(10.0)
    others[0].send({"kind": "left"})
    assert heard[0].get(timeout=10) == heard[2].get(timeout=10) == (1, "left")
    hub.send({"kind": "failed"})
    assert heard[1].get(timeout=10) == heard[2].get(timeout=10) == (0, "failed")
    others[1]._lines[0].connection.shutdown(socket.SHUT_RDWR)
    assert heard[0].get(timeout=10) == 2
