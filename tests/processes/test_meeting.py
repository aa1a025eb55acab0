"""Where processes meet: strangers at the port, tokens, addresses."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

import pytest

from tests.processes.launching import REPOSITORY

SECONDS = 120


@contextlib.contextmanager
def strangers(host: str, port: int) -> Iterator[list[bytes]]:
    """Say nonsense, a part of a message, or nothing at a port, again and again; give what."""
    words = [b"[" * 60_000 + b"\n", b'{"kind": "hel', b"", b"\0\n", b"{}\n"]
    told: list[bytes] = []
    is_over, kept = threading.Event(), []

    def run() -> None:
        while not is_over.wait(0.001):
            with contextlib.suppress(OSError):
                kept.append(socket.create_connection((host, port), timeout=5))
                kept[-1].sendall(words[len(told) % len(words)])
                told.append(words[len(told) % len(words)])
                del kept[:-100]

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        is_over.set()
        thread.join()


def run(host: str, port: int, tokens: Sequence[str]) -> list[subprocess.CompletedProcess[str]]:
    """Run `meeting.py` in processes with a token each."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COORDINATOR_BIND_ADDRESS"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.processes.meeting"],
            env={
                **environment,
                "JAX_COORDINATOR_ADDRESS": address,
                "JAX_NUM_PROCESSES": str(len(tokens)),
                "JAX_PROCESS_ID": str(rank),
                "KILN_COORDINATOR_TOKEN": token,
                "KILN_NUM_CPU_DEVICES": "1",
            },
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, token in enumerate(tokens)
    ]
    try:
        ends = [process.communicate(timeout=SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *end)
        for process, end in zip(processes, ends, strict=True)
    ]


def free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, 0), family=family) as free:
            return int(free.getsockname()[1])
    except OSError:
        pytest.skip(f"this machine has no {host}")


@pytest.mark.parametrize("host", [pytest.param("127.0.0.1", marks=pytest.mark.full), "::1"])
def test_strangers_take_no_part(host: str) -> None:
    port = free_port(host)
    with strangers(host, port) as told:
        ended = run(host, port, ["secret", "secret"])
    for process in ended:
        assert process.returncode == 0, process.stderr
        assert "together 1.0" in process.stdout
        # Nobody but this machine reaches the port.
        assert "without a token" not in process.stderr
    assert told
