"""Supervisors that start small programs as workers, and agree on rounds."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

import pytest

from kiln.core.processes.membership import Limits
from kiln.core.processes.supervisor import Setting, Supervisor

full = pytest.mark.full

SUPERVISOR = """
import sys
from kiln.core.processes.membership import Limits
from kiln.core.processes.supervisor import Setting, Supervisor

index, count, port, least, restarts, worker = sys.argv[1:]
sys.exit(Supervisor(Setting(
    host="127.0.0.1", port=int(port), index=int(index), count=int(count),
    bind_host="127.0.0.1", own_bind="127.0.0.1", is_same_machine=True, token="secret",
    limits=Limits(int(least), int(count), int(restarts)),
    command=[sys.executable, "-S", "-c", worker],
    marker="KILN_LAUNCH_FOLDER", initialization_timeout=30, heartbeat_timeout=30,
)).run())
"""

BEGIN = """
import os, signal, sys, time
attempt, rank, count = (
    int(os.environ[each])
    for each in ("KILN_LAUNCH_ATTEMPT", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES")
)
def stop(number, frame):
    print("told", flush=True)
    sys.exit(75)

signal.signal(signal.SIGTERM, stop)
print("round", attempt, "rank", rank, "of", count, flush=True)
"""


def supervised(
    count: int, worker: str, *, least: int = 1, restarts: int = 2
) -> list[subprocess.Popen[str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = [str(each) for each in (count, port, least, restarts)]
    return [
        subprocess.Popen(
            [sys.executable, "-c", SUPERVISOR, str(index), *given, BEGIN + worker],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(count)
    ]


def ended(processes: Sequence[subprocess.Popen[str]]) -> tuple[list[int], str, str]:
    """Return the exit codes of supervisors, and what all have printed."""
    try:
        said = [process.communicate(timeout=60) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return (
        [process.returncode for process in processes],
        "".join(out for out, _ in said),
        "".join(err for _, err in said),
    )


FAILS_ONCE = """
if attempt == 0 and rank == 1:
    sys.exit(7)
if attempt == 0:
    # As a process that ends because another one has.
    with open(os.path.join(os.environ["KILN_LAUNCH_FOLDER"], str(rank)), "w") as file:
        file.write("process 1 has ended")
    sys.exit(1)
"""


def test_all_start_again_after_a_failure() -> None:
    codes, out, err = ended(supervised(2, FAILS_ONCE))
    assert codes == [0, 0], err
    assert sorted(out.splitlines()) == [
        f"round {number} rank {rank} of 2" for number in range(2) for rank in range(2)
    ]
    assert err.splitlines() == [
        "kiln.distributed.run: round 0 of 2 processes has failed: process 1 of 2 (127.0.0.1) "
        "failed with exit code 7; restart 1 of 2",
        "kiln.distributed.run: round 1 starts with 2 processes",
    ]


LOSES_A_SUPERVISOR = """
if attempt == 0 and rank == 0:
    os.kill(os.getppid(), signal.SIGKILL)
    os.read(int(os.environ["KILN_SUPERVISOR_PIPE"]), 1)
if attempt == 0:
    time.sleep(0.5)
    sys.exit(1)
"""


def test_the_first_supervisor_is_lost() -> None:
    """Another one leads; the worker of the lost one knows by its pipe."""
    codes, out, err = ended(supervised(2, LOSES_A_SUPERVISOR))
    assert codes == [-signal.SIGKILL, 0], err
    assert out.splitlines().count("round 1 rank 0 of 1") == 1
    assert "supervisor 0, which led, has ended; restart 1 of 2" in err


WAITS = "time.sleep(60)"


@pytest.mark.parametrize(
    "asked", [[0, 1], pytest.param([0], marks=full), pytest.param([1], marks=full)]
)
def test_a_signal_of_the_manager_reaches_the_workers(asked: list[int]) -> None:
    """Such as before the end of a job's time: the exit codes are those of the workers."""
    processes = supervised(2, WAITS, least=2)
    for process in processes:
        assert process.stdout is not None
        assert re.match(r"round 0 rank \d of 2", process.stdout.readline())
    for index in asked:
        os.kill(processes[index].pid, signal.SIGTERM)
    codes, out, err = ended(processes)
    assert codes == [75, 75], err
    assert out.count("told") == 2


def test_a_signal_after_the_worker_has_ended() -> None:
    """The leader, which was asked first, has made all workers save and end: that is the code."""
    place = {"host": "127.0.0.1", "port": 1, "bind_host": "127.0.0.1", "own_bind": "127.0.0.1"}
    setting = Setting(
        **place,
        index=1,
        count=2,
        is_same_machine=True,
        token="",
        limits=Limits(2, 2, 2),
        command=[],
        marker="",
        initialization_timeout=1.0,
        heartbeat_timeout=1.0,
    )
    one = Supervisor(setting)
    one._last_code = 75
    one._leave(signal.SIGTERM)
    assert one._code == 75
    other = Supervisor(setting)
    other._leave(signal.SIGTERM)
    assert other._code == 128 + signal.SIGTERM
