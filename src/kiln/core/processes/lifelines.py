"""Connections among the processes of a program that close when one of them dies.

Process 0 has one to every other process, and relays their messages. The operating system closes the
connections of a process that ends in any way, so the others notice at once; if a process is frozen
or cut off, they miss its heartbeats.

Until all processes have connected, anyone may connect: a connection that does not authenticate in
time is closed, and delays no other.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable

from kiln.base.process.forks import in_child
from kiln.core.processes.handshake import LONGEST_S, RefusedError, introduce, welcome, word
from kiln.core.processes.lines import Line, Message

LONGEST_TRY_S = 5.0
PAUSE_S = 0.05
MOST_STRANGERS = 64
"""The most unauthenticated connections; beyond that the oldest one is closed."""
SHORTEST_QUEUE = 128
"""The least number of connections that may wait to be accepted."""


class _Stranger(Line):
    """A connection to process 0 that has not authenticated yet."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.asked = word()


class Lifelines:
    """The connections of this process, served by a thread.

    `hear(rank, message)` is called with a message of process `rank`, and `miss(rank)` when the
    connection to it closes. `tick` is called at least every `interval` seconds. All processes have
    the same `token`; without one, it is "", and anyone who reaches the port may take part.
    """

    def __init__(
        self,
        index: int,
        interval: float,
        hear: Callable[[int, Message], None],
        miss: Callable[[int], None],
        tick: Callable[[], None],
        token: str = "",
    ) -> None:
        self._index, self._interval = index, interval
        self._hear, self._miss, self._tick = hear, miss, tick
        self._token = token
        self._selector = selectors.DefaultSelector()
        self._lines: dict[int, Line] = {}
        self._strangers: dict[_Stranger, None] = {}
        self._listener: socket.socket | None = None
        self._count = 0
        self._is_stopped = False
        self._all_here = threading.Event()
        _open.append(self)

    def listen(self, count: int, host: str, port: int) -> None:
        """On process 0, accept connections of the others.

        Raises: OSError.
        """
        self._count = count
        self._listener = listener(host, port, count)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._start()

    def all_have_come(self, seconds: float) -> bool:
        """On process 0, wait for the others; tell whether all have connected."""
        return self._all_here.wait(seconds)

    def absent(self) -> list[int]:
        """On process 0, return the ranks that have not connected."""
        return [rank for rank in range(1, self._count) if rank not in self._lines]

    def connect(self, count: int, host: str, port: int, seconds: float) -> str:
        """On another process, connect to process 0; return why it rejected this one, or ""."""
        end = time.monotonic() + seconds
        missing = f"process 0 was not there within {seconds:g} seconds"
        while True:
            once = max(0.1, min(LONGEST_TRY_S, end - time.monotonic()))
            try:
                line = Line(socket.create_connection((host, port), timeout=once))
            except OSError:
                pass
            else:
                try:
                    introduce(line, self._token, self._index, count, end)
                    break
                except RefusedError as refusal:
                    line.connection.close()
                    return str(refusal)
                except OSError as error:
                    line.connection.close()
                    missing = f"what answers there is not process 0 of this program: {error}"
            if time.monotonic() > end:
                return missing
            time.sleep(PAUSE_S)
        line.rank = 0
        self._lines[0] = line
        self._selector.register(line.connection, selectors.EVENT_READ, line)
        self._start()
        return ""

    def _start(self) -> None:
        threading.Thread(target=self._serve, name="kiln lifelines", daemon=True).start()

    def send(self, message: Message) -> None:
        """Send a message to all other processes."""
        said = {"rank": self._index, **message}
        for line in list(self._lines.values()):
            line.send(said)

    def stop(self) -> None:
        """Ignore messages from now on; the connections stay open until the process ends."""
        self._is_stopped = True

    def close(self) -> None:
        """Close the connections, also in the child of a fork, for which no peer waits."""
        self._is_stopped = True
        for line in (*self._lines.values(), *self._strangers):
            line.connection.close()
        if self._listener is not None:
            self._listener.close()

    def _serve(self) -> None:
        for line in list(self._lines.values()):
            self._take(line)
        beaten = 0.0
        while not self._is_stopped:
            for key, _ in self._selector.select(self._interval / 2):
                if key.data is None:
                    self._accept()
                elif key.data.is_open:
                    self._take(key.data)
            now = time.monotonic()
            for stranger in [s for s in self._strangers if now - s.since > LONGEST_S]:
                self._drop(stranger)
            if now - beaten >= self._interval / 2:
                beaten = now
                self.send({"kind": "beat"})
                self._tick()

    def _accept(self) -> None:
        if self._listener is None:
            return
        if len(self._strangers) >= MOST_STRANGERS:
            self._drop(next(iter(self._strangers)))
        try:
            stranger = _Stranger(self._listener.accept()[0])
        except BlockingIOError:
            return
        except OSError:
            # For example, all descriptors are in use: closing an unauthenticated connection frees
            # one.
            if self._strangers:
                self._drop(next(iter(self._strangers)))
            time.sleep(PAUSE_S)
            return
        self._strangers[stranger] = None
        self._selector.register(stranger.connection, selectors.EVENT_READ, stranger)
        stranger.send({"kind": "challenge", "word": stranger.asked})

    def _drop(self, line: Line) -> None:
        """Close a connection, and report the process at its other end as missing, if it is one."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(line.connection)
        if isinstance(line, _Stranger) and line.rank is None:
            self._strangers.pop(line, None)
            line.connection.close()
        elif line.rank is not None and not self._is_stopped:
            self._lines.pop(line.rank, None)
            self._miss(line.rank)

    def _take(self, line: Line) -> None:
        messages = line.receive()
        try:
            for message in messages or ():
                if self._is_stopped:
                    return
                if isinstance(line, _Stranger) and line.rank is None:
                    self._admit(line, message)
                    if line.rank is None:
                        return
                else:
                    self._pass_on(line, message)
        except Exception:  # noqa: BLE001, no message may end the thread that all rely on
            messages = None
        if messages is None:
            self._drop(line)

    def _pass_on(self, line: Line, message: Message) -> None:
        rank = line.rank if self._index == 0 else message.get("rank", 0)
        assert type(rank) is int
        if self._index == 0 and message.get("kind") != "beat":
            for other, each in list(self._lines.items()):
                if other != rank:
                    each.send({**message, "rank": rank})
        self._hear(rank, message)

    def _admit(self, stranger: _Stranger, hello: Message) -> None:
        """Admit a connection that authenticates as one of the processes; drop it otherwise."""
        answer = welcome(hello, self._token, stranger.asked)
        refusal = self._refusal(hello) if answer is not None else _UNKNOWN
        if answer is None or refusal:
            stranger.send({"kind": "refused", "text": refusal})
            self._drop(stranger)
            return
        rank: int = hello["rank"]
        del self._strangers[stranger]
        stranger.rank = rank
        stranger.send(answer)
        self._lines[rank] = stranger
        if not self.absent():
            self._stop_listening()
            self._all_here.set()

    def _refusal(self, hello: Message) -> str:
        """Return why an authenticated sender is not one of the processes; "" if it is one."""
        rank, count = hello["rank"], hello["count"]
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
        for stranger in list(self._strangers):
            self._drop(stranger)


_UNKNOWN = "its token is not that of process 0"


def listener(host: str, port: int, count: int) -> socket.socket:
    """Return a socket that listens at an address; at all of this machine for `::`.

    Raises: OSError.
    """
    backlog = max(count, SHORTEST_QUEUE)
    if host == "::" and socket.has_dualstack_ipv6():
        both = socket.AF_INET6
        return socket.create_server(("", port), family=both, backlog=backlog, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in host and host != "::" else socket.AF_INET
    name = "" if host == "::" else host
    return socket.create_server((name, port), family=family, backlog=backlog)


_open: list[Lifelines] = []


@in_child
def _close_all() -> None:
    while _open:
        _open.pop().close()
