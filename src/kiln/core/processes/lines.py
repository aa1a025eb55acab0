"""Connections that carry messages: lines of JSON, bounded in length and depth."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from typing import Any

CHUNK = 1 << 16
LONGEST_LINE = 1 << 20
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
        self._waiting: list[Message] = []

    @property
    def is_open(self) -> bool:
        """Whether this side has not closed it."""
        return self.connection.fileno() >= 0

    def send(self, message: Message) -> None:
        """Send a message, unless the other side has closed the connection or does not read."""
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")

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
            if left <= 0 or not self._is_readable(left):
                raise TimeoutError("no message was received")

    def _is_readable(self, seconds: float) -> bool:
        """Wait for bytes; return whether there are any."""
        # Not `select.select`, which does not support file descriptors above 1023.
        waiting = select.poll()
        waiting.register(self.connection, select.POLLIN)
        return bool(waiting.poll(seconds * 1000))


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
