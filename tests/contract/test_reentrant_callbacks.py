"""Section 13.5: callbacks that call kiln again finish, on each engine, in threads, under load."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.contract.marks import contract
from tests.reentrant import KINDS

ENGINES = ["native", "xla", ""]
"""The empty name is the default: the native engine where it can, the XLA engine elsewhere."""


SEVERAL_DEVICES = {"over_devices", "devices_in_devices", "devices_in_threads"}


def kinds_of(engine: str) -> list[str]:
    """Return the kinds of programs that an engine runs: the native one has one device."""
    return [kind for kind in KINDS if engine != "native" or kind not in SEVERAL_DEVICES]


def run(kinds: list[str], engine: str, count: int, load: int, seconds: float) -> None:
    """Run the program in another process, which is ended if it hangs."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.reentrant"]
    done = subprocess.run(
        [*command, ",".join(kinds), str(count), str(load)],
        env={**os.environ, "KILN_ENGINE": engine},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    # A process that ran programs in callbacks once ended by a signal, after all was done.
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.splitlines() == [*kinds, "fine"]


@contract("13.5")
@pytest.mark.parametrize(
    ("count", "engine"),
    [
        # The default chooses, program by program, between the two others; XLA takes seconds.
        pytest.param(
            count, engine, marks=[pytest.mark.full] if (count, engine) != (8, "native") else []
        )
        for engine in ENGINES
        for count in (8, 100)
    ],
)
def test_callbacks_that_call_kiln_again_finish(count: int, engine: str) -> None:
    run(kinds_of(engine), engine, count, 0, 240)


@contract("13.5")
@pytest.mark.full
@pytest.mark.parametrize(
    ("engine", "kind"), [(engine, kind) for engine in ENGINES for kind in kinds_of(engine)]
)
def test_a_thousand_callbacks_under_load_finish(kind: str, engine: str) -> None:
    run([kind], engine, 1000, 4, 900)
