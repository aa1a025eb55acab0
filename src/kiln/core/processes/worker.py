"""The process that runs a round of an elastic program for its supervisor."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PIPE = "KILN_SUPERVISOR_PIPE"
"""The variable that names the end of a pipe that closes when the supervisor ends."""

GRACE_S = 5.0
"""How long a worker has to end by itself after another has failed, and after SIGTERM."""

GENTLE_GRACE_S = 30.0
"""How long a worker of a round without a failure has to save and to end, after SIGTERM."""


class Worker:
    """The program, started again by its own command line."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        watched, self._pipe = os.pipe()
        try:
            self._process = subprocess.Popen(
                command,
                env={**environment, PIPE: str(watched)},
                pass_fds=[watched],
                # What it has started ends with it.
                process_group=0,
            )
        finally:
            os.close(watched)
        self._terminates_at = self._dies_at = float("inf")
        self.is_told = self._is_terminated = False

    def code(self) -> int | None:
        """Return how it has ended; None while it runs."""
        now, found = time.monotonic(), self._process.poll()
        if found is not None:
            self.kill()
        elif now >= self._dies_at:
            self._signal(signal.SIGKILL)
        elif now >= self._terminates_at:
            self._terminates_at = float("inf")
            self.is_told = True
            self.terminate(signal.SIGTERM)
        return found

    def stop(self, *, is_gentle: bool) -> None:
        """Ask it to end, and see to it."""
        now = time.monotonic()
        self._terminates_at = now if is_gentle else now + GRACE_S
        self._dies_at = now + GENTLE_GRACE_S if is_gentle else now + 2 * GRACE_S

    def terminate(self, number: int) -> None:
        """Pass on a signal; SIGTERM only once: while Python ends another one would kill it."""
        if number == signal.SIGTERM and self._is_terminated:
            return
        self._is_terminated = self._is_terminated or number == signal.SIGTERM
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it, and what it has started."""
        self._signal(signal.SIGKILL)
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def described(code: int, because: Path) -> tuple[str, bool]:
    """Return how a worker has ended, and whether by itself; the file holds another reason."""
    with contextlib.suppress(OSError):
        return f"failed with exit code {code}: {because.read_text(encoding='utf-8')}", False
    if code >= 0:
        return f"failed with exit code {code}", True
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}", True
    return f"was ended by signal {-code}", True


def take_supervisor() -> bool:
    """Tell whether this process is a worker; if so it ends with its supervisor from now on."""
    pipe = os.environ.pop(PIPE, None)
    if pipe is None:
        return False
    threading.Thread(
        target=_end_with, args=(int(pipe),), name="kiln supervisor", daemon=True
    ).start()
    return True


def _end_with(pipe: int) -> None:
    with contextlib.suppress(OSError):
        os.set_inheritable(pipe, False)
        os.read(pipe, 1)
    sys.stderr.write("kiln.distributed.run: the supervisor of this process has ended\n")
    sys.stderr.flush()
    os.killpg(0, signal.SIGKILL)
