"""Section 13.1: Ctrl-C arrives within a second wherever a user can wait."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.contract.marks import contract

OFTEN = (
    "block_until_ready,float,repr,asarray,array,memoryview,device_get,add,compare,barrier,compile,"
    "callbacks,callbacks elsewhere,small"
)
"""One of each way to wait that kiln has; the others go the same ways."""

SOAK = "block_until_ready,float,tolist,asarray,device_get,add,eager,barrier,compile,callbacks"

KERNELS = "products,layers,sort,fft,convolution,convolution of channels,solve,transpose"
"""What threads share: each of its parts may be the one that is interrupted."""


def interrupt(kinds: str, count: int, seed: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.interrupted", kinds, str(count), str(seed)],
        capture_output=True,
        text=True,
        timeout=60 + 20 * count * (kinds.count(",") + 1),
        check=False,
    )
    # What Python says of an exception that it ignores tells where one was lost.
    return done.stdout + ("" if (done.returncode, done.stdout) == (0, "fine\n") else done.stderr)


@contract("13.1")
def test_interrupts_arrive_and_leave_nothing_behind() -> None:
    assert interrupt(OFTEN, 1) == "fine\n"


@contract("13.1")
@pytest.mark.full
def test_other_waits_are_interrupted() -> None:
    assert interrupt("all", 2, seed=1) == "fine\n"


@contract("13.1")
@pytest.mark.full
@pytest.mark.timeout(3000)
def test_fifty_interrupts_in_each_of_ten_waits() -> None:
    assert interrupt(SOAK, 50, seed=2) == "fine\n"


@contract("13.1")
@pytest.mark.full
@pytest.mark.timeout(3000)
def test_forty_interrupts_in_each_kernel() -> None:
    assert interrupt(KERNELS, 40, seed=3) == "fine\n"
