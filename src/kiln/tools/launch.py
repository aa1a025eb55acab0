"""`python -m kiln launch`: a program in several processes on this machine.

Each line of output begins with the number of its process. The first process that fails is named,
and ends the others; one Ctrl-C ends all.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TextIO

from kiln.base.process.forks import new_lock
from kiln.distributed import ELASTIC, LAUNCH_FOLDER, TOKEN
from kiln.tools.command_line import WrongUse

HELP = "a program in several processes on this machine"
EXAMPLES = """\
examples:
  kiln launch -n 2 train.py
  kiln launch -n 4 --devices 2 -m package.train --epochs 3
"""

GRACE_S = 5.0
"""How long processes may take to end by themselves, and again after they were asked to."""
POLL_S = 0.02
REPLACED_AFTER_S = 1.0
"""How long after its end a lost process of an elastic program is started again."""
ATTEMPT = "KILN_LAUNCH_ATTEMPT"
"""The variable that says how often the processes were started before."""
_INTERRUPTED = 128 + signal.SIGINT


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how many processes there are, the program and its arguments."""
    parser.add_argument("-n", "--processes", type=int, required=True, help="how many")
    parser.add_argument("--devices", type=int, help="devices of each, the processor divided")
    parser.add_argument(
        "--grace",
        type=float,
        default=GRACE_S,
        help="seconds that processes have to end by themselves when one has failed",
    )
    parser.add_argument(
        "--restarts",
        type=int,
        default=0,
        help="how often all processes are started again after one has failed; or, of a program "
        "that calls kiln.distributed.run, how often a lost one is replaced",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="run a module by its name")
    parser.add_argument("program", help="a Python file, or a module's name after -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="for the program")


def command(given: argparse.Namespace) -> int:
    """Run the program in processes, and return the exit status."""
    if given.restarts < 0:
        raise WrongUse(
            f"--restarts {given.restarts}: it is a number of times", "write --restarts 3"
        )
    if given.processes < 1:
        raise WrongUse(
            f"-n {given.processes}: a program runs in at least one process", "write -n 2"
        )
    words = [*["-m"] * given.module, given.program, *given.arguments]
    return run(words, given.processes, given.devices, given.grace, given.restarts)


class _Group:
    """The processes, and threads that pass on what they print."""

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        devices: int | None,
        grace: float,
        folder: str,
        attempt: int,
        restarts: int,
    ) -> None:
        self._folder = Path(folder)
        self._grace = grace
        self._command = command
        self._restarts, self._used = restarts, 0
        self._lost_at: dict[int, float] = {}
        self._printing = new_lock()
        self._readers: list[threading.Thread] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        address = f"127.0.0.1:{_free_port()}"
        self._environment = {
            **os.environ,
            "JAX_COORDINATOR_ADDRESS": address,
            "JAX_COORDINATOR_BIND_ADDRESS": address,
            "JAX_NUM_PROCESSES": str(count),
            LAUNCH_FOLDER: folder,
            ATTEMPT: str(attempt),
            TOKEN: os.environ.get(TOKEN) or secrets.token_hex(32),
            "PYTHONUNBUFFERED": "1",
        }
        if devices is not None:
            self._environment["KILN_NUM_CPU_DEVICES"] = str(devices)
        for rank in range(count):
            self.processes.append(self._started(rank))

    def _started(self, rank: int) -> subprocess.Popen[bytes]:
        # In sessions of their own they do not see the Ctrl-C that this process passes on.
        made = subprocess.Popen(
            self._command,
            env={**self._environment, "JAX_PROCESS_ID": str(rank)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert made.stdout is not None
        assert made.stderr is not None
        self._read(rank, made.stdout, sys.stdout)
        self._read(rank, made.stderr, sys.stderr)
        return made

    def _read(self, rank: int, source: IO[bytes], target: TextIO) -> None:
        def read() -> None:
            for line in source:
                text = line.decode(errors="replace").rstrip("\n")
                with self._printing, contextlib.suppress(OSError, ValueError):
                    target.write(f"[{rank}] {text}\n")
                    target.flush()

        reader = threading.Thread(target=read, name=f"output of process {rank}", daemon=True)
        reader.start()
        self._readers.append(reader)

    def codes(self) -> list[int | None]:
        """Return how each process has ended."""
        return [process.poll() for process in self.processes]

    def wait(self) -> int | None:
        """Wait until one fails and return its number; None if all end well."""
        while True:
            codes = self.codes()
            if any(codes) and not self.is_elastic():
                return self._culprit()
            if None not in codes:
                # The others have gone on without those that were lost.
                failed = [rank for rank, code in enumerate(codes) if code and code > 0]
                return failed[0] if failed else None if 0 in codes else 0
            self._replace(codes)
            time.sleep(POLL_S)

    def is_elastic(self) -> bool:
        """Tell whether the program goes on without a process that is lost."""
        return (self._folder / ELASTIC).exists()

    def _replace(self, codes: Sequence[int | None]) -> None:
        """Start lost processes of an elastic program again: those that a signal has ended."""
        now = time.monotonic()
        for rank, code in enumerate(codes):
            if code is None or code >= 0:
                continue
            if rank not in self._lost_at:
                self._lost_at[rank] = now
                how = _how(code, self._folder / str(rank))
                _say(f"process {rank} of {len(codes)} {how}; the others go on")
            elif self._used < self._restarts and now - self._lost_at[rank] > REPLACED_AFTER_S:
                self._used += 1
                del self._lost_at[rank]
                self.processes[rank] = self._started(rank)
                _say(f"process {rank} is started again: restart {self._used} of {self._restarts}")

    def _culprit(self) -> int:
        """Return the first that failed, other than because another one had failed."""
        end = time.monotonic() + self._grace
        while True:
            codes = self.codes()
            failed = [rank for rank, code in enumerate(codes) if code]
            own = [rank for rank in failed if not (self._folder / str(rank)).exists()]
            if own or None not in codes or time.monotonic() > end:
                return (own or failed)[0]
            time.sleep(POLL_S)

    def end(self, *signals: int) -> None:
        """End all that still run: by waiting, then by each signal and waiting, then for good."""
        for number in (*signals, signal.SIGKILL):
            if number:
                for process in self.processes:
                    # What they have started ends with them.
                    if process.poll() is None or number == signal.SIGKILL:
                        with contextlib.suppress(ProcessLookupError, PermissionError):
                            os.killpg(process.pid, number)
            end = time.monotonic() + self._grace
            while None in self.codes() and time.monotonic() < end:
                time.sleep(POLL_S)
            if None not in self.codes():
                break
        for reader in self._readers:
            reader.join(timeout=1.0)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _how(code: int, because: Path) -> str:
    with contextlib.suppress(OSError):
        return f"failed with exit code {code}: {because.read_text(encoding='utf-8')}"
    if code >= 0:
        return f"failed with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def run(
    program: Sequence[str],
    count: int,
    devices: int | None = None,
    grace: float = GRACE_S,
    restarts: int = 0,
) -> int:
    """Run a Python program in processes and return an exit code.

    `program` is a file, or `-m` and a module, with arguments. The exit code is that of the first
    process that failed, or 128 and the number of the signal that ended it. When one has failed the
    others have `grace` seconds to end by themselves. Then all are started again, `restarts` times
    at most. An elastic program, which calls `kiln.distributed.run`, goes on without processes that
    are lost, and only they are started again.
    """
    command = [sys.executable, *program]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    for attempt in range(restarts + 1):
        code, is_over = _run_once(command, count, devices, grace, attempt, restarts)
        if not code or is_over or attempt == restarts:
            return code
        _say(f"all processes are started again: restart {attempt + 1} of {restarts}")
    raise AssertionError("unreachable: the last attempt returns")


def _run_once(
    command: Sequence[str],
    count: int,
    devices: int | None,
    grace: float,
    attempt: int,
    restarts: int,
) -> tuple[int, bool]:
    """Run a program in processes to its end; return the exit code, and whether that is final."""
    with tempfile.TemporaryDirectory(prefix="kiln-launch-") as folder:
        group: _Group | None = None
        try:
            group = _Group(command, count, devices, grace, folder, attempt, restarts)
            culprit = group.wait()
            if culprit is None:
                group.end(0)
                return 0, True
            code = group.processes[culprit].returncode
            group.end(0, signal.SIGTERM)
            how = _how(code, Path(folder) / str(culprit))
            _say(f"process {culprit} of {count} {how}; the others were ended")
            return code if code > 0 else 128 - code, group.is_elastic()
        except KeyboardInterrupt:
            if group is not None:
                # A second Ctrl-C does not wait.
                with contextlib.suppress(KeyboardInterrupt):
                    group.end(signal.SIGINT, signal.SIGTERM)
                _say("interrupted; all processes were ended")
            return _INTERRUPTED, True
        finally:
            if group is not None:
                for process in group.processes:
                    if process.poll() is None:
                        process.kill()


def _say(text: str) -> None:
    sys.stderr.write(f"kiln launch: {text}\n")
    sys.stderr.flush()
