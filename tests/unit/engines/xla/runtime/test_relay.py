"""The relay between jaxlib and the coordination service."""

from __future__ import annotations

import socket
import time

import pytest

from kiln.engines.xla.runtime.relay import Relay, reach


def test_bytes_pass_and_the_end_of_the_service_does_not() -> None:
    service = socket.create_server(("127.0.0.1", 0))
    port = service.getsockname()[1]
    relay = Relay("127.0.0.1", port)
    near = socket.create_connection(("127.0.0.1", relay.port), timeout=10)
    far, _ = service.accept()
    far.settimeout(10)
    near.sendall(b"there")
    assert far.recv(5) == b"there"
    far.sendall(b"back")
    assert near.recv(4) == b"back"
    far.close()
    service.close()
    near.settimeout(0.2)
    # It neither ends nor fails: nothing comes any more.
    with pytest.raises(TimeoutError):
        near.recv(1)
    near.sendall(b"more")


def test_the_end_of_the_client_passes() -> None:
    service = socket.create_server(("127.0.0.1", 0))
    relay = Relay("127.0.0.1", service.getsockname()[1])
    near = socket.create_connection(("127.0.0.1", relay.port), timeout=10)
    far, _ = service.accept()
    far.settimeout(10)
    near.close()
    assert far.recv(1) == b""


def test_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        assert reach("127.0.0.1", port, 10) == "127.0.0.1"
    start = time.monotonic()
    assert reach("127.0.0.1", port, 0.1) is None
    assert time.monotonic() - start < 10
