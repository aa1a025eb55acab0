"""Connections that carry messages: lines of JSON, bounded in length and depth."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from typing import Any

from kiln.base.process.forks import new_rlock

CHUNK = 1 << 16
LONGEST_LINE = 1 << 20
LONGEST_SEND_S = 1.0
"""How long a line waits for a process that does not read."""
LONGEST_UNAUTHENTICATED = 1 << 12
"""The maximum length of a line before the other side is authenticated."""

Message = dict[str, Any]


class Line:
    """One connection. `rank` is the process at its other end, None until it is authenticated."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.rank: int | None = None
        self.since = time.monotonic()
        self._received = b""
        # Two threads send; a signal handler may do so within either.
        self._sending = new_rlock()
        self._waiting: list[Message] = []

    @property
    def is_open(self) -> bool:
        """Whether this side has not closed it."""
        return self.connection.fileno() >= 0

    def send(self, message: Message) -> None:
        """Send a message, unless the other side has closed the connection or does not read."""
        self.send_encoded(encoded(message))

    def send_encoded(self, data: bytes) -> None:
        """Send messages in the form of `encoded`, as `send` does."""
        with self._sending, contextlib.suppress(OSError):
            self._send_all(data)

    def _send_all(self, data: bytes) -> None:
        """Send bytes; part of a line would damage the next one, so that it closes the connection.

        Raises: OSError.
        """
        left, end = memoryview(data), time.monotonic() + LONGEST_SEND_S
        while left:
            try:
                left = left[self.connection.send(left) :]
            except BlockingIOError:
                if not self._is_ready(select.POLLOUT, end - time.monotonic()):
                    if len(left) < len(data):
                        self.connection.shutdown(socket.SHUT_RDWR)
                    return

    def receive(self) -> list[Message] | None:
        """Return the messages received; None if the connection is closed, or not kiln's."""
        waiting, self._waiting = self._waiting, []
        try:
            data = self.connection.recv(CHUNK)
        except BlockingIOError:
            return waiting
        except OSError:
            return None
        *lines, self._received = (self._received + data).split(b"\n")
        longest = LONGEST_UNAUTHENTICATED if self.rank is None else LONGEST_LINE
        if not data or any(len(line) > longest for line in (*lines, self._received)):
            return None
        try:
            return waiting + [_message(line) for line in lines]
        except (ValueError, RecursionError):
            return None

    def next(self, end: float) -> Message:
        """Wait for a message; `receive` returns those that arrive with it.

        Raises: OSError if none arrives before `end` on the monotonic clock.
        """
        while True:
            found = self.receive()
            if found is None:
                raise ConnectionError("the connection was closed, or is not kiln's")
            if found:
                self._waiting = found[1:]
                return found[0]
            left = end - time.monotonic()
            if not self._is_ready(select.POLLIN, left):
                raise TimeoutError("no message was received")

    def _is_ready(self, event: int, seconds: float) -> bool:
        """Wait until bytes can be read, or written; return whether they can."""
        if seconds <= 0:
            return False
        # Not `select.select`, which does not support file descriptors above 1023.
        waiting = select.poll()
        waiting.register(self.connection, event)
        return bool(waiting.poll(seconds * 1000))


def encoded(message: Message) -> bytes:
    """Return a message as a line of bytes."""
    return json.dumps(message).encode() + b"\n"


def _message(line: bytes) -> Message:
    """Return the message in a line.

    Raises: ValueError or RecursionError unless it is a dict of strings, ints, flat dicts of ints.
    """
    found = json.loads(line)
    if not isinstance(found, dict) or not all(map(_is_flat, found.values())):
        raise ValueError("a message is a dict of strings and numbers")
    return found


def _is_flat(value: Any) -> bool:
    if isinstance(value, dict):
        return all(type(each) is int for each in value.values())
    return isinstance(value, (str, int))
