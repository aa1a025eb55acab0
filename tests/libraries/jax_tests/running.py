"""Runs tests in child processes: one that hangs or crashes costs one test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.libraries.jax_tests.outcomes import DIED, HUNG, FileOutcome, read
from tests.libraries.jax_tests.recording import CHOICE, LIMIT_S, RECORD, SOURCE

ROOT = Path(__file__).parents[3]
_PACKAGE = "tests.libraries.jax_tests"
_ENDED = (0, 1, 2, 5)
"""Exit codes of pytest that ran to its end."""


@dataclass(frozen=True)
class Limits:
    """How much processor time a test may take, and for how long it or the start may say nothing."""

    test_s: float = 60.0
    silent_s: float = 900.0
    start_s: float = 900.0


@dataclass(frozen=True)
class Session:
    """What pytest is asked to run, and which variables its environment has besides."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def run_file(
    source: Path,
    name: str,
    library: str,
    limits: Limits,
    *,
    at_most: int = 0,
    only: Sequence[str] | None = None,
) -> FileOutcome:
    """Run a file of a checkout's tests on `jax` or on `kiln` and return what they did."""
    plugins = ("-p", f"{_PACKAGE}.recording", "-p", f"{_PACKAGE}.on_{library}")
    settings = ("-c", str(source / "pyproject.toml"))
    environment = {SOURCE: str(source), "PYTHONPATH": str(ROOT)}
    session = Session((*plugins, *settings, str(source / "tests" / name)), environment)
    return run(session, limits, at_most=at_most, only=only)


def run(
    session: Session,
    limits: Limits,
    *,
    at_most: int = 0,
    only: Sequence[str] | None = None,
) -> FileOutcome:
    """Run the tests of a session and return what they did.

    A process that crashes or hangs is replaced by one for the tests that are left.
    """
    found = FileOutcome()
    while True:
        named = found.chosen or only
        choice = {"at_most": at_most, "only": named, "without": [*found.tests]}
        before = len(found.tests)
        with tempfile.TemporaryDirectory() as folder:
            record = Path(folder) / "record"
            record.touch()
            code = _run(session, limits, choice, record)
            found = read(record.read_text(encoding="utf-8").splitlines(), found)
        if code in _ENDED or found.load:
            return found
        if found.running:
            found.note(found.running, HUNG if code is None else DIED, f"exit code {code}")
        elif len(found.tests) == before:
            # It ended outside of all tests: another process would do the same.
            found.load = f"E   the process ended with code {code}"
            return found


def _run(session: Session, limits: Limits, choice: object, record: Path) -> int | None:
    """Run pytest once; return its exit code, or None if it was stopped."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    command += ["-p", "no:timeout", *session.arguments]
    environment = os.environ | {
        RECORD: str(record),
        CHOICE: json.dumps(choice),
        LIMIT_S: str(limits.test_s),
        "JAX_PLATFORMS": "cpu",
        **session.environment,
    }
    with subprocess.Popen(
        command,
        env=environment,
        cwd=record.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        while True:
            try:
                return child.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                state = record.stat()
                limit_s = limits.silent_s if state.st_size else limits.start_s
                if time.time() - state.st_mtime > limit_s:
                    child.kill()
                    child.wait()
                    return None
