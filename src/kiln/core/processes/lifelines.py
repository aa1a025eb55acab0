"""Connections among the processes of a program that close when one of them dies.

Process 0 has one to every other process, and relays their messages. The operating system closes the
connections of a process that ends for any reason, so the others notice at once; if a process is
frozen or its network is cut, its heartbeats stop.

Until all processes have connected, anyone may connect: a connection that does not authenticate in
time is closed, and delays no other.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence

from kiln.base.process.forks import in_child
from kiln.core.processes.exchanges import LATE, SAID
from kiln.core.processes.handshake import LONGEST_S, RefusedError, authenticate, nonce, welcome
from kiln.core.processes.lines import Line, Message, encoded

LONGEST_TRY_S = 5.0
PAUSE_S = 0.05
MOST_UNAUTHENTICATED = 64
"""The most unauthenticated connections; beyond that the oldest one is closed."""
FOR_PROCESS_0 = ("beat", "gone", "pace", SAID, LATE)
"""The kinds of messages that process 0 does not relay."""
SHORTEST_QUEUE = 128
"""The least number of connections that may wait to be accepted."""


class _IncomingLine(Line):
    """A connection that process 0 has accepted; `rank` is None until it authenticates."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.nonce = nonce()


class Lifelines:
    """The connections of this process, served by a thread.

    `on_message(rank, message)` is called for each message of process `rank`, `on_disconnect(rank)`
    when the connection to it closes, and `on_tick()` at least every `interval` seconds. All
    processes have the same `token`; if it is "", anyone who reaches the port may take part.
    """

    def __init__(
        self,
        index: int,
        interval: float,
        on_message: Callable[[int, Message], None],
        on_disconnect: Callable[[int], None],
        on_tick: Callable[[], None],
        token: str = "",
    ) -> None:
        self._index, self._interval = index, interval
        self._on_message, self._on_disconnect, self._on_tick = on_message, on_disconnect, on_tick
        self._token = token
        self._selector = selectors.DefaultSelector()
        self._lines: dict[int, Line] = {}
        self._unauthenticated: dict[_IncomingLine, None] = {}
        self._listener: socket.socket | None = None
        self._count = 0
        self._is_stopped = False
        self._to_relay: list[Message] = []
        self._all_here = threading.Event()
        _open.append(self)

    def listen(self, count: int, host: str, port: int) -> None:
        """On process 0, accept connections from the others.

        Raises: OSError.
        """
        self._count = count
        self._listener = listener(host, port, count)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._start()

    def wait_for_all(self, seconds: float) -> bool:
        """On process 0, wait for the others; return whether all have connected."""
        return self._all_here.wait(seconds)

    def absent(self) -> list[int]:
        """On process 0, return the ranks that have not connected."""
        return [rank for rank in range(1, self._count) if rank not in self._lines]

    def connect(self, count: int, host: str, port: int, seconds: float) -> str:
        """On another process, connect to process 0; return why that failed, or ""."""
        end = time.monotonic() + seconds
        missing = f"process 0 was not reached within {seconds:g} seconds"
        while True:
            once = max(0.1, min(LONGEST_TRY_S, end - time.monotonic()))
            try:
                line = Line(socket.create_connection((host, port), timeout=once))
            except OSError:
                pass
            else:
                try:
                    authenticate(line, self._token, self._index, count, end)
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

    def local_host(self) -> str:
        """On another process, return the address from which it has reached process 0."""
        return str(self._lines[0].connection.getsockname()[0])

    def _start(self) -> None:
        threading.Thread(target=self._serve, name="kiln lifelines", daemon=True).start()

    def send(self, message: Message, ranks: Sequence[int] | None = None) -> None:
        """Send a message to all other processes, or to those with the given ranks.

        Other processes than process 0 reach only that one, which relays messages to all.
        """
        message = {"rank": self._index, **message}
        lines = self._lines.copy()
        for rank in lines if ranks is None else ranks:
            if rank in lines:
                lines[rank].send(message)

    def stop(self) -> None:
        """Ignore messages from now on; the connections stay open until the process ends."""
        self._is_stopped = True

    def close(self) -> None:
        """Close the connections, also in a forked child, which is not one of the processes."""
        self._is_stopped = True
        for line in (*self._lines.values(), *self._unauthenticated):
            line.connection.close()
        if self._listener is not None:
            self._listener.close()

    def _serve(self) -> None:
        for line in list(self._lines.values()):
            self._receive(line)
        last_beat = 0.0
        while not self._is_stopped:
            for key, _ in self._selector.select(self._interval / 2):
                if key.data is None:
                    self._accept()
                elif key.data.is_open:
                    self._receive(key.data)
            self._relay_together()
            now = time.monotonic()
            for line in [s for s in self._unauthenticated if now - s.since > LONGEST_S]:
                self._drop(line)
            if now - last_beat >= self._interval / 2:
                last_beat = now
                self.send({"kind": "beat"})
                self._on_tick()

    def _accept(self) -> None:
        if self._listener is None:
            return
        if len(self._unauthenticated) >= MOST_UNAUTHENTICATED:
            self._drop(next(iter(self._unauthenticated)))
        try:
            incoming = _IncomingLine(self._listener.accept()[0])
        except BlockingIOError:
            return
        except OSError:
            # For example, the process has no free file descriptor: closing an unauthenticated
            # connection frees one.
            if self._unauthenticated:
                self._drop(next(iter(self._unauthenticated)))
            time.sleep(PAUSE_S)
            return
        self._unauthenticated[incoming] = None
        self._selector.register(incoming.connection, selectors.EVENT_READ, incoming)
        incoming.send({"kind": "challenge", "nonce": incoming.nonce})

    def _drop(self, line: Line) -> None:
        """Close a connection; if it has authenticated, report that the process has disconnected."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(line.connection)
        if isinstance(line, _IncomingLine) and line.rank is None:
            self._unauthenticated.pop(line, None)
            line.connection.close()
        elif line.rank is not None and not self._is_stopped:
            self._lines.pop(line.rank, None)
            self._on_disconnect(line.rank)

    def _receive(self, line: Line) -> None:
        messages = line.receive()
        try:
            for message in messages or ():
                if self._is_stopped:
                    return
                if isinstance(line, _IncomingLine) and line.rank is None:
                    self._admit(line, message)
                    if line.rank is None:
                        return
                else:
                    self._relay(line, message)
        except Exception:  # noqa: BLE001, no message may end the thread that serves all connections
            messages = None
        if messages is None:
            self._drop(line)

    def _relay(self, line: Line, message: Message) -> None:
        rank = line.rank if self._index == 0 else message.get("rank", 0)
        assert type(rank) is int
        if self._index == 0 and message.get("kind") == "left":
            self._to_relay.append({**message, "rank": rank})
        elif self._index == 0 and message.get("kind") not in FOR_PROCESS_0:
            for other, each in self._lines.copy().items():
                if other != rank:
                    each.send({**message, "rank": rank})
        self._on_message(rank, message)

    def _relay_together(self) -> None:
        """Relay what came at about the same time: at the end of a program, a message of each."""
        messages, self._to_relay = self._to_relay, []
        if messages:
            # Encoded once for all, so that each process also gets its own message back.
            data = b"".join(map(encoded, messages))
            for line in list(self._lines.values()):
                line.send_encoded(data)

    def _admit(self, incoming: _IncomingLine, hello: Message) -> None:
        """Admit a connection that authenticates as one of the processes; drop it otherwise."""
        answer = welcome(hello, self._token, incoming.nonce)
        refusal = self._refusal(hello) if answer is not None else _UNKNOWN
        if answer is None or refusal:
            incoming.send({"kind": "refused", "text": refusal})
            self._drop(incoming)
            return
        rank: int = hello["rank"]
        del self._unauthenticated[incoming]
        incoming.rank = rank
        incoming.send(answer)
        self._lines[rank] = incoming
        if len(self._lines) == self._count - 1:
            self._stop_listening()
            self._all_here.set()

    def _refusal(self, hello: Message) -> str:
        """Return why an authenticated sender is not one of the processes; "" if it is."""
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
        for incoming in list(self._unauthenticated):
            self._drop(incoming)


_UNKNOWN = "its token is not that of process 0"


def listener(host: str, port: int, count: int) -> socket.socket:
    """Return a socket that listens at an address; on all interfaces for `::`.

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
