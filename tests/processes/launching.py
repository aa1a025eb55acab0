"""Start a program in several processes, and never wait forever."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
LONGEST_S = 120.0


def launched(
    program: str, *words: str, count: int = 2, devices: int = 2, restarts: int = 0, **options: str
) -> subprocess.CompletedProcess[str]:
    """Run a module of this folder, a file, or kiln in processes.

    `options` are environment variables.
    """
    command = [sys.executable, "-m", "kiln", "launch", "-n", str(count)]
    named = ["-m", program if program == "kiln" else f"tests.processes.{program}"]
    if program.endswith(".py"):
        named = [program]
    command += ["--devices", str(devices), "--restarts", str(restarts), *named, *words]
    environment = {**os.environ, **options}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            out, err = process.communicate(timeout=LONGEST_S)
        except BaseException:
            # The launcher ends the others.
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            finally:
                process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def started(program: str, count: int, options: Mapping[str, str]) -> str:
    """Run a module of this folder in processes without the launcher; return what they print.

    Raises: AssertionError if one fails.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"tests.processes.{program}"],
            env={
                **os.environ,
                "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
                "JAX_NUM_PROCESSES": str(count),
                "JAX_PROCESS_ID": str(rank),
                "KILN_NUM_CPU_DEVICES": "1",
                **options,
            },
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        printed = [process.communicate(timeout=LONGEST_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * count, printed
    return "".join(printed)
