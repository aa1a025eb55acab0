"""A connection to the coordination service that never closes.

jaxlib aborts the process when the connection to the service is closed, as it is when the process
that hosts the service dies. So jaxlib is connected to a relay in its own process, which keeps its
connection open in that case.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time

CHUNK = 1 << 16


class Relay:
    """Forwards bytes between jaxlib and the service at an address, on a thread of its own."""

    def __init__(self, host: str, port: int) -> None:
        self._service = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        # These are no longer read, but stay open.
        self._silent: list[socket.socket] = []
        threading.Thread(target=self._pass, name="kiln relay", daemon=True).start()

    def _pass(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    self._accept()
                elif key.fd in self._selector.get_map():
                    self._forward(key)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(self._service, timeout=5)
        except OSError:
            # jaxlib retries.
            near.close()
            return
        for each in (near, far):
            each.setblocking(True)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(near, selectors.EVENT_READ, (far, False))
        self._selector.register(far, selectors.EVENT_READ, (near, True))

    def _forward(self, key: selectors.SelectorKey) -> None:
        source = key.fileobj
        assert isinstance(source, socket.socket)
        other, is_far = key.data
        data = b""
        with contextlib.suppress(OSError):
            data = source.recv(CHUNK)
        if data:
            with contextlib.suppress(OSError):
                other.sendall(data)
            return
        self._selector.unregister(source)
        self._selector.unregister(other)
        source.close()
        if is_far:
            self._silent.append(other)
        else:
            other.close()


def reach(host: str, port: int, seconds: float) -> str | None:
    """Wait until an address accepts connections; return the local address of the connection.

    Returns None on a timeout.
    """
    once, end = max(0.1, min(5.0, seconds)), time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((host, port), timeout=once) as made:
                return str(made.getsockname()[0])
        except OSError:
            if time.monotonic() > end:
                return None
            time.sleep(0.05)
