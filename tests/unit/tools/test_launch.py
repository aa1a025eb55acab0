"""`python -m kiln launch`: output, failures and interrupts, of programs that need no kiln."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.marks import contract

PROGRAM = """
import os, signal, sys, time
rank = os.environ["JAX_PROCESS_ID"]
what = sys.argv[1:] + ["", ""]
print("token", os.environ["KILN_COORDINATOR_TOKEN"], file=sys.stderr)
print("hello of", os.environ["JAX_NUM_PROCESSES"], what, os.environ.get("KILN_NUM_CPU_DEVICES"))
if what[1] == rank:
    print("oh", file=sys.stderr)
    if what[0] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what[0] == "exit":
        sys.exit(7)
    if what[0] == "late":
        time.sleep(0.2)
        sys.exit(7)
elif what[0] == "late":
    # This one fails because the other one will.
    open(os.path.join(os.environ["KILN_LAUNCH_FOLDER"], rank), "w").close()
    sys.exit(1)
elif what[0]:
    print("ready", flush=True)
    time.sleep(60)
"""


FAILS_TWICE = """
import os, sys, time
attempt = os.environ["KILN_LAUNCH_ATTEMPT"]
print("attempt", attempt)
if attempt < "2":
    # Process 1 fails, and process 0 has to be ended.
    sys.exit(7) if os.environ["JAX_PROCESS_ID"] == "1" else time.sleep(60)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return str(path)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "kiln", "launch", *words]


def launched(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=60, check=False)


@contract("17.6")
def test_output_has_numbers(program: str) -> None:
    done = launched("-n", "2", "--devices", "3", program, "", "-x")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == [
        f"[{rank}] hello of 2 ['', '-x', '', ''] 3" for rank in range(2)
    ]
    # All of them, and nobody else, know one secret.
    tokens = [line.partition("token ")[2] for line in done.stderr.splitlines()]
    assert len(tokens) == 2
    assert len(set(tokens)) == 1
    assert len(tokens[0]) == 64
    assert tokens[0] not in launched("-n", "1", program, "").stderr


@contract("17.6")
@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("kill", 137, "process 1 of 2 was ended by SIGKILL"),
        pytest.param(
            *("exit", 7, "process 1 of 2 failed with exit code 7"), marks=pytest.mark.full
        ),
        ("late", 7, "process 1 of 2 failed with exit code 7"),
    ],
)
def test_the_first_failure_ends_all(program: str, what: str, code: int, said: str) -> None:
    # Process 0 sleeps, and has to be ended.
    done = launched("-n", "2", "--grace", "0.5", program, what, "1")
    assert done.returncode == code
    assert said in done.stderr.splitlines()[-1]
    assert "[1] oh" in done.stderr


@pytest.mark.parametrize(("restarts", "code"), [("2", 0), ("1", 7)])
def test_all_are_started_again(tmp_path: Path, restarts: str, code: int) -> None:
    program = tmp_path / "fails_twice.py"
    program.write_text(FAILS_TWICE, encoding="utf-8")
    done = launched("-n", "2", "--grace", "0.2", "--restarts", restarts, str(program))
    assert done.returncode == code
    said = [line for line in done.stderr.splitlines() if "restart" in line]
    assert said == [
        f"kiln launch: all processes are started again: restart {i + 1} of {restarts}"
        for i in range(int(restarts))
    ]
    assert re.findall(r"\[1\] attempt (\d)", done.stdout) == list("012"[: int(restarts) + 1])


def test_a_number_of_restarts_is_not_negative(program: str) -> None:
    done = launched("-n", "2", "--restarts", "-1", program)
    assert done.returncode == 2
    assert "write --restarts 3" in done.stderr


@contract("17.6")
def test_one_interrupt_ends_all(program: str) -> None:
    with subprocess.Popen(
        command("-n", "2", program, "sleep", "none"), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ready = 0
            while ready < 2:
                ready += "ready" in process.stdout.readline()
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()
