"""Connections among the processes of a program that close when one of them dies.

Process 0 has one to every other process, and passes on what each of them says. A system closes the
connections of a process that ends in any way, so that the others hear of it at once; of one that is
frozen, or cut off, they miss the beats.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from kiln.base.forks import in_child

CHUNK = 1 << 16
LONGEST_LINE = 1 << 20
LONGEST_TRY_S = 5.0
PAUSE_S = 0.05

Message = dict[str, Any]


class Line:
    """One connection: messages as lines of JSON."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.rank: int | None = None
        self._received = b""

    def send(self, message: Message) -> None:
        """Send a message, unless the other side is gone or does not read."""
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[Message] | None:
        """Return the messages that have come; None if the connection is closed, or not kiln's."""
        try:
            data = self.connection.recv(CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            return None
        *lines, self._received = (self._received + data).split(b"\n")
        if not data or len(self._received) > LONGEST_LINE:
            return None
        try:
            found = [json.loads(line) for line in lines]
        except ValueError:
            return None
        return found if all(isinstance(each, dict) for each in found) else None


class Lifelines:
    """The connections of this process, served by a thread.

    `hear(rank, message)` is called with what process `rank` said, and `miss(rank)` when the
    connection to it closes; a rank of 0 stands for all others that process 0 passed on. `tick` is
    called at least every `interval` seconds.
    """

    def __init__(
        self,
        index: int,
        interval: float,
        hear: Callable[[int, Message], None],
        miss: Callable[[int], None],
        tick: Callable[[], None],
    ) -> None:
        self._index, self._interval = index, interval
        self._hear, self._miss, self._tick = hear, miss, tick
        self._selector = selectors.DefaultSelector()
        self._lines: dict[int, Line] = {}
        self._listener: socket.socket | None = None
        self._count = 0
        self._is_stopped = False
        self._all_here = threading.Event()
        _open.append(self)

    def listen(self, count: int, host: str, port: int) -> None:
        """As process 0, let the others come.

        Raises: OSError.
        """
        self._count = count
        self._listener = listener(host, port, count)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._start()

    def all_have_come(self, seconds: float) -> bool:
        """As process 0, wait for the others; tell whether they came."""
        return self._all_here.wait(seconds)

    def absent(self) -> list[int]:
        """As process 0, return who has not come."""
        return [rank for rank in range(1, self._count) if rank not in self._lines]

    def connect(self, count: int, host: str, port: int, seconds: float) -> bool:
        """As another process, come to process 0; tell whether it was there in time."""
        end = time.monotonic() + seconds
        while True:
            once = max(0.1, min(LONGEST_TRY_S, end - time.monotonic()))
            try:
                line = Line(socket.create_connection((host, port), timeout=once))
                break
            except OSError:
                if time.monotonic() > end:
                    return False
                time.sleep(PAUSE_S)
        line.rank = 0
        line.send({"kind": "hello", "rank": self._index, "count": count})
        self._lines[0] = line
        self._selector.register(line.connection, selectors.EVENT_READ, line)
        self._start()
        return True

    def _start(self) -> None:
        threading.Thread(target=self._serve, name="kiln lifelines", daemon=True).start()

    def send(self, message: Message) -> None:
        """Send a message to all other processes."""
        said = {"rank": self._index, **message}
        for line in list(self._lines.values()):
            line.send(said)

    def stop(self) -> None:
        """Hear nothing from now on; the connections stay open until the process ends."""
        self._is_stopped = True

    def close(self) -> None:
        """Close the connections, also in the child of a fork, for which nobody waits."""
        self._is_stopped = True
        for line in self._lines.values():
            line.connection.close()
        if self._listener is not None:
            self._listener.close()

    def _serve(self) -> None:
        beaten = 0.0
        while not self._is_stopped:
            for key, _ in self._selector.select(self._interval / 2):
                if key.data is None:
                    self._accept()
                else:
                    self._take(key.data)
            now = time.monotonic()
            if now - beaten >= self._interval / 2:
                beaten = now
                self.send({"kind": "beat"})
                self._tick()

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(OSError):
            line = Line(self._listener.accept()[0])
            self._selector.register(line.connection, selectors.EVENT_READ, line)

    def _take(self, line: Line) -> None:
        messages = line.receive()
        for message in messages or ():
            if self._is_stopped:
                return
            if line.rank is None:
                refusal = self._refusal(message)
                if refusal:
                    line.send({"kind": "failed", "rank": 0, "text": refusal})
                    messages = None
                    break
                line.rank = message["rank"]
                self._lines[message["rank"]] = line
                if not self.absent():
                    self._stop_listening()
                    self._all_here.set()
                continue
            rank = line.rank if self._index == 0 else int(message.get("rank", 0))
            if self._index == 0 and message.get("kind") != "beat":
                for other, each in list(self._lines.items()):
                    if other != rank:
                        each.send({**message, "rank": rank})
            self._hear(rank, message)
        if messages is None:
            self._selector.unregister(line.connection)
            if line.rank is None:
                line.connection.close()
            elif not self._is_stopped:
                self._lines.pop(line.rank, None)
                self._miss(line.rank)

    def _refusal(self, message: Message) -> str:
        """Say why the sender of a first message is none of the processes; "" if it is one."""
        rank, count = message.get("rank"), message.get("count")
        if message.get("kind") != "hello" or not isinstance(rank, int):
            return "this is no process of a program"
        if count != self._count:
            return f"process {rank} has num_processes={count}, and process 0 has {self._count}"
        if not 0 < rank < self._count or rank in self._lines:
            return f"there are two processes with process_id={rank}"
        return ""

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None


def listener(host: str, port: int, count: int) -> socket.socket:
    """Return a socket that listens at an address; at all of this machine for `::`.

    Raises: OSError.
    """
    if host == "::" and socket.has_dualstack_ipv6():
        both = socket.AF_INET6
        return socket.create_server(("", port), family=both, backlog=count, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in host and host != "::" else socket.AF_INET
    name = "" if host == "::" else host
    return socket.create_server((name, port), family=family, backlog=count)


_open: list[Lifelines] = []


@in_child
def _close_all() -> None:
    while _open:
        _open.pop().close()
