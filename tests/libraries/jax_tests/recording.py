"""A pytest plugin that writes what each test does, as it happens, and chooses which tests run.

The file that it writes has one JSON object a line, so that what is there when a process dies says
which test it died in. It knows neither jax nor kiln.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

RECORD = "JAX_TESTS_RECORD"
"""The environment variable that names the file to write to."""

CHOICE = "JAX_TESTS_CHOICE"
"""The environment variable with the choice: JSON of the keywords of `chosen`."""

SOURCE = "JAX_TESTS_SOURCE"
"""The environment variable that names the checkout."""

MANY = "JAX_TESTS_MANY"
"""Set if tests of many files run, so that the name of a test begins with that of its file."""

LIMIT_S = "JAX_TESTS_LIMIT_S"
"""The environment variable with the seconds of processor time that a test may take."""

LONGEST_TEXT = 4000


class TookTooLongError(Exception):
    """A test took more processor time than it may."""


def chosen(
    names: Sequence[str],
    *,
    at_most: int = 0,
    only: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> list[str]:
    """Return the tests to run, in order.

    They are `only` those named, or every k-th, where k is the smallest number that leaves at most
    `at_most` (0: all), and never those in `without`.
    """
    if only is not None:
        wanted = set(only)
        kept = [name for name in names if name in wanted]
    else:
        kept = [*names[:: -(-len(names) // at_most) or 1]] if at_most else [*names]
    left_out = set(without)
    return [name for name in kept if name not in left_out]


def share(sizes: Sequence[int], at_most: int) -> int:
    """Return how many tests of each file to take, so that there are at most `at_most` (0: all).

    `sizes` says how many each has. At least one of each is taken.
    """
    if not at_most:
        return 0
    fitting = [
        each for each in range(1, at_most + 1) if sum(min(size, each) for size in sizes) <= at_most
    ]
    return max(fitting, default=1)


def file_of(nodeid: str) -> str:
    """Return the part of a test's id that names its file."""
    return nodeid.partition("::")[0]


_renamings: list[Callable[[str], str]] = []


def rename_by(renaming: Callable[[str], str]) -> None:
    """Let tests have other names in the record."""
    _renamings.append(renaming)


def name_of(nodeid: str) -> str:
    """Return the name of a test in the record: its id, after its file if there is only one."""
    for renaming in _renamings:
        nodeid = renaming(nodeid)
    return nodeid if os.environ.get(MANY) else nodeid.partition("::")[2]


def _write(**entry: Any) -> None:
    with Path(os.environ[RECORD]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep the chosen tests and write how many there were, in all and in each file."""
    choice = json.loads(os.environ[CHOICE])
    files: dict[str, list[str]] = {}
    for item in items:
        files.setdefault(file_of(item.nodeid), []).append(name_of(item.nodeid))
    choice["at_most"] = share([len(names) for names in files.values()], choice["at_most"])
    kept = {name for names in files.values() for name in chosen(names, **choice)}
    names = [name_of(item.nodeid) for item in items]
    _write(
        collected=len(names),
        sizes={file: len(tests) for file, tests in files.items()},
        chosen=[name for name in names if name in kept],
    )
    items[:] = [item for item in items if name_of(item.nodeid) in kept]


def pytest_collectreport(report: Any) -> None:
    """Write why a file cannot be loaded."""
    if report.failed:
        file = file_of(report.nodeid) if os.environ.get(MANY) else ""
        _write(load=str(report.longrepr)[-LONGEST_TEXT:], file=file)


def _stop(number: int, frame: FrameType | None) -> None:
    raise TookTooLongError(f"more than {os.environ[LIMIT_S]} s of processor time")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Let a test that takes too much processor time fail."""
    previous = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, float(os.environ[LIMIT_S]))
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, previous)


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    """Write that a test starts."""
    _write(start=name_of(nodeid))


def pytest_runtest_logreport(report: Any) -> None:
    """Write what came of a part of a test, unless there is nothing to say."""
    if report.outcome == "passed" and report.when != "call":
        return
    text = ""
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash is not None else str(report.longrepr)
    _write(test=name_of(report.nodeid), outcome=report.outcome, text=text[:LONGEST_TEXT])
