"""Processes of one device each that run a benchmark together on this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST_S = 600.0


def answers(
    module: str, words: Sequence[str], count: int, variables: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return what each of `count` processes of a module prints last, as JSON.

    They are also given `--created` and the time. Raises: RuntimeError if one fails.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    processes: list[subprocess.Popen[str]] = []
    for rank in range(count):
        environment = {**os.environ, "KILN_COORDINATOR_TOKEN": "secret", "KILN_CHECK": ""}
        environment.update(variables, KILN_NUM_CPU_DEVICES="1")
        if count > 1:
            environment.update(
                JAX_COORDINATOR_ADDRESS=f"127.0.0.1:{port}",
                JAX_NUM_PROCESSES=str(count),
                JAX_PROCESS_ID=str(rank),
            )
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", module, *words, "--created", str(time.time())],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        ends = [process.communicate(timeout=LONGEST_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, err) in zip(processes, ends, strict=True):
        if process.returncode:
            raise RuntimeError(f"{' '.join([module, *words])}, {count} processes: {err[-2000:]}")
    return [json.loads(out.splitlines()[-1]) for out, _ in ends]
