"""Transfer guards log and refuse what jax's do, where it runs on CPU devices.

The answer of a line is a number for each guard and level: 0 if it passes in silence, 1 if it is
logged, 2 if it is refused.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
from tests.differential.expressions import names
from tests.differential.oracle import Case, Topic
from tests.differential.transfer_rows import ROWS, SETUP

WAYS = ("host_to_device", "device_to_device", "device_to_host")
LEVELS = ("log", "disallow", "log_explicit", "disallow_explicit")
PASSES, LOGGED, REFUSED = range(3)

DIFFERENT = {
    "numbers of jax's own": [0] * 12,
    "made in place": None,
    "looked at once by jax": [0] * 4 + [1, 2, 1, 2] + [0] * 4,
}
"""Subjects in which kiln differs from jax, and its answers."""


@functools.cache
def _program(lib: Any) -> dict[str, Any]:
    found = {**names(lib), "random": lib.random, "pickle": pickle, "copy": copy}
    exec(SETUP, found)
    return found


class _Counting(logging.Handler):
    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "transfer: " in record.getMessage()


@contextlib.contextmanager
def _lines() -> Iterator[list[int]]:
    """Count lines about transfers: kiln's in the log, jax's on file descriptor 2."""
    counted: list[int] = []
    handler = _Counting()
    logging.getLogger("kiln").addHandler(handler)
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield counted
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            logging.getLogger("kiln").removeHandler(handler)
            file.seek(0)
            counted.append(handler.count or file.read().count(b"transfer: "))


def _outcome(guard: Any, level: str, run: Callable[[], Any]) -> int:
    with _lines() as counted:
        try:
            with guard(level):
                run()
        except Exception as error:
            if "Disallowed " not in str(error):
                raise
            return REFUSED
    return LOGGED if counted[0] else PASSES


def outcomes(lib: Any, line: str) -> np.ndarray:
    """Return what each guard says of a line at each level, once it has run."""
    program = _program(lib)
    code = compile(line, "<line>", "eval")

    def run() -> None:
        lib.block_until_ready(eval(code, program))

    with lib.disable_jit(False):
        run()
        guards = [getattr(lib, f"transfer_guard_{way}") for way in WAYS]
        return np.array([_outcome(g, level, run) for g in guards for level in LEVELS])


def _case(group: str, line: str) -> Case:
    return Case(group, line, lambda lib: outcomes(lib, line))


def _lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


TOPIC = Topic(
    "transfers", (_case(group, line) for group, text in ROWS.items() for line in _lines_of(text))
)


@pytest.mark.parametrize("group", [g for g in TOPIC.groups if g not in DIFFERENT])
def test_guards_agree(group: str) -> None:
    TOPIC.check(group, kiln)


@pytest.mark.parametrize("group", DIFFERENT)
def test_guards_differ_where_documented(group: str) -> None:
    for case in TOPIC.cases:
        if case.group == group:
            found = outcomes(kiln, case.name)
            wanted = DIFFERENT[group]
            assert found.tolist() == wanted or (wanted is None and not found[4:].any()), case.name
            (stored,) = TOPIC.answers()[case.id].arrays
            assert found.tolist() != stored.tolist(), f"{case.name} does not differ any more"
