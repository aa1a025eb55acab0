"""Validation of artifacts that may be damaged, in a separate process that they may crash."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.engines.xla.stablehlo import artifact_reader as artifact_reader
from kiln.engines.xla.stablehlo.artifact_reader import LENGTH

LONGEST_S = 120.0
"""The timeout for reading an artifact."""


class Reader:
    """A process that reads artifacts one at a time; it is restarted if it dies.

    It is started for the first artifact.
    """

    def __init__(self, seconds: float = LONGEST_S) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def fault(self, stored: bytes) -> str:
        """Return the error of an artifact; "" if it can be read.

        Raises: OSError if no process can be started.
        """
        process = self._process = self._process or self._started()
        # After the timeout the process is killed, which ends the read.
        clock = threading.Timer(self._seconds, process.kill)
        clock.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(LENGTH.pack(len(stored)) + stored)
            process.stdin.flush()
            begin = process.stdout.read(LENGTH.size)
            if len(begin) == LENGTH.size:
                return process.stdout.read(LENGTH.unpack(begin)[0]).decode(errors="replace")
        except BrokenPipeError:
            pass
        finally:
            clock.cancel()
        return self._how_it_died()

    def _started(self) -> subprocess.Popen[bytes]:
        made = subprocess.Popen(
            [sys.executable, "-S", "-P", artifact_reader.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert made.stdin is not None
        # Python skips entries that are not strings, such as a `Path`.
        given: list[Any] = sys.path
        places = json.dumps([place for place in given if isinstance(place, str)]).encode()
        made.stdin.write(LENGTH.pack(len(places)) + places)
        return made

    def _how_it_died(self) -> str:
        code = self._ended()
        if code == -signal.SIGKILL:
            return f"reading it took more than {self._seconds:g} seconds, or all memory"
        if code >= 0:
            return f"the process that read it ended with exit code {code}"
        try:
            return f"reading it ends a process by {signal.Signals(-code).name}"
        except ValueError:
            return f"reading it ends a process by signal {-code}"

    def _ended(self) -> int:
        process, self._process = self._process, None
        assert process is not None
        process.communicate()
        return process.returncode

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._ended()


def check_artifacts(stored: Sequence[bytes]) -> None:
    """Check that untrusted artifacts can be read, before this process reads them.

    Raises: ValueError for one that cannot, or if no process can be started.
    """
    with Reader() as reader:
        for each in stored:
            asked = f"an artifact of {len(each)} bytes, without a checksum, at {current_source()}"
            try:
                fault = reader.fault(each)
            except OSError as error:
                raise ValueError(
                    three_lines(
                        asked,
                        f"no process of {sys.executable!r} can be started to check it: {error}",
                        "load it where that works, and store it again with Exported.serialize() of "
                        "kiln, which adds a checksum",
                    )
                ) from None
            if fault:
                raise ValueError(
                    three_lines(
                        asked,
                        f"it is not portable StableHLO that this jaxlib can read: {fault:.500}",
                        "pass all bytes, unchanged, or export the function again",
                    )
                )
