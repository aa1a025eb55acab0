"""Workers: they end with their supervisors, and say how."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from kiln.core.processes.worker import Worker, described

ENDS_WITH_ITS_SUPERVISOR = """
import os, subprocess, sys, time
from kiln.core.processes.worker import PIPE, take_supervisor
assert take_supervisor()
assert PIPE not in os.environ
assert not take_supervisor()
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
print(os.getpid(), child.pid, flush=True)
time.sleep(60)
"""

SUPERVISOR = """
import os, sys, time
from kiln.core.processes.worker import Worker
worker = Worker([sys.executable, "-c", sys.argv[1]], os.environ)
time.sleep(60)
"""


def is_running(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def test_a_worker_and_its_children_end_with_the_supervisor() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, ENDS_WITH_ITS_SUPERVISOR],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as supervisor:
        assert supervisor.stdout is not None
        pids = [int(each) for each in supervisor.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_running, pids))
        supervisor.kill()
        end = time.monotonic() + 30
        while any(map(is_running, pids)):
            assert time.monotonic() < end
            time.sleep(0.02)


def test_a_worker_that_does_not_listen_is_killed() -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    worker = Worker([sys.executable, "-S", "-c", f"{deaf}; time.sleep(60)"], os.environ)
    assert worker.code() is None
    worker.stop(is_gentle=True)
    worker._dies_at = time.monotonic() + 0.5
    end = time.monotonic() + 30
    while worker.code() is None:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert worker.is_told
    assert worker.code() in (-9, -15)


def test_how_a_worker_has_ended(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert described(3, missing) == ("failed with exit code 3", True)
    assert described(-9, missing) == ("was ended by SIGKILL", True)
    assert described(-77, missing) == ("was ended by signal 77", True)
    reason = tmp_path / "0"
    reason.write_text("process 1 has ended", encoding="utf-8")
    assert described(1, reason) == ("failed with exit code 1: process 1 has ended", False)
