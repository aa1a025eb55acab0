"""Start a program in several processes, and never wait forever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
LONGEST_S = 120.0


def launched(
    program: str, *words: str, count: int = 2, devices: int = 2, **options: str
) -> subprocess.CompletedProcess[str]:
    """Run a module of this folder, or a file, in processes; `options` are environment variables."""
    command = [sys.executable, "-m", "kiln", "launch", "-n", str(count)]
    named = [program] if program.endswith(".py") else ["-m", f"tests.processes.{program}"]
    command += ["--devices", str(devices), *named, *words]
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
