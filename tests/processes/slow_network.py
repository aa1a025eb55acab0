"""A network between processes that delays what is sent, and holds it back from some moment on."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

DELAY_S = 0.3


class SlowNetwork:
    """Passes bytes from a port of its own to another one on this machine, and back."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.holds = threading.Event()
        self.passed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = None
            while far is None:
                with contextlib.suppress(OSError):
                    far = socket.create_connection(("127.0.0.1", self._port))
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(DELAY_S)
                while self.holds.is_set():
                    time.sleep(0.05)
                target.sendall(data)
                self.passed += 1
