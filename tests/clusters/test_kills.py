"""Ten kills at random moments under each manager, resumed each time: the curve is unbroken.

The random numbers are the same in each run.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.clusters import environment, training
from tests.clusters.running import LONGEST_S, Task, saved_steps, tasks, until_saved, workers
from tests.clusters.slurm import Cluster
from tests.clusters.test_mpi import COMMANDS, command
from tests.clusters.test_slurm import slurm as slurm

pytestmark = [pytest.mark.clusters, pytest.mark.full]

KILLS, STEPS, PAUSE_S = 10, 40, 0.2
WORDS = ("data", f"--steps={STEPS}", f"--pause={PAUSE_S}")


def kill(folder: Path, kinds: Sequence[str], do: Callable[[str], None], seed: int = 7) -> None:
    """Kill something of each kind, each time a while after another step has been saved."""
    chance = random.Random(seed)
    for kind in kinds:
        until_saved(folder, max(saved_steps(folder), default=-1) + 1)
        time.sleep(chance.uniform(0.0, 2 * PAUSE_S))
        do(kind)


def shuffled(seed: int, **times: int) -> list[str]:
    """Return each of the words as often as is said, in a random order."""
    kinds = [kind for kind, count in times.items() for _ in range(count)]
    assert len(kinds) == KILLS
    random.Random(seed).shuffle(kinds)
    return kinds


def killer(found: Callable[[], list[Task]]) -> Callable[[int], None]:
    """Return what kills the process of a rank, as soon as it is there.

    Those that ran beside one that was killed are being ended for that: to kill one of them would
    not be another failure.
    """
    ended = set[int]()

    def kill_one(rank: int) -> None:
        end = time.monotonic() + LONGEST_S
        while True:
            running = [each for each in found() if each.pid not in ended]
            victims = [each for each in running if each.rank == rank]
            if victims:
                ended.update(each.pid for each in running)
                victims[0].kill()
                return
            assert time.monotonic() < end
            time.sleep(0.05)

    return kill_one


def check(folder: Path) -> None:
    found = json.loads((folder / "losses.json").read_text(encoding="utf-8"))
    assert len(found) == STEPS
    assert np.allclose(found, training.alone(STEPS), rtol=2e-6, atol=0)


def test_the_launcher(tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "kiln", "launch", "-n", "4", "--devices", "1"]
    begun = [*launch, "--restarts", str(KILLS), "-m", "tests.clusters.training"]
    given = environment.own_environment(tmp_path)
    pipe = subprocess.PIPE
    kill_one = killer(lambda: tasks(str(tmp_path)))
    with subprocess.Popen(
        [*begun, *WORDS, "--save", str(tmp_path)], env=given, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            kill(
                tmp_path,
                shuffled(1, first=4, other=6),
                lambda kind: kill_one(0 if kind == "first" else 2),
            )
            _, err = process.communicate(timeout=LONGEST_S)
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0, err
    assert err.count("was ended by SIGKILL") == KILLS
    check(tmp_path)


@pytest.mark.parametrize("name", COMMANDS)
def test_mpi(name: str, tmp_path: Path) -> None:
    """The program goes on by itself: `mpirun` starts nothing again."""
    begun, given = command(name, 4, tmp_path, *WORDS, "--elastic=4")
    pipe = subprocess.PIPE
    kill_one = killer(lambda: workers(str(tmp_path)))
    with subprocess.Popen(
        begun, cwd=environment.REPOSITORY, env=given, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            kill(
                tmp_path,
                shuffled(2, first=4, other=6),
                lambda kind: kill_one(0 if kind == "first" else 3),
            )
            _, err = process.communicate(timeout=LONGEST_S)
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0, err
    assert f"restart {KILLS} of 20" in err
    check(tmp_path)


def kill_node(folder: Path) -> None:
    """Kill all that runs on the last node of a job, its daemon included."""
    names = [task.variables["SLURMD_NODENAME"] for task in workers(str(folder))]
    if not names:
        return
    node = max(names)
    pids = set[int]()
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            given = (each / "environ").read_bytes().split(b"\0")
            words = (each / "cmdline").read_bytes().split(b"\0")
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if f"SLURMD_NODENAME={node}".encode() in given:
            pids |= {int(each.name)}
            if "slurmstepd" in Path(f"/proc/{parent}/comm").read_text():
                pids |= {parent}
        elif b"slurmd-wlm" in words[0] and words[2:4] == [b"-N", node.encode()]:
            pids |= {int(each.name)}
    # The daemon first, so that it reports nothing.
    for pid in sorted(pids):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_slurm(slurm: Cluster, tmp_path: Path) -> None:
    """Workers are started again by their supervisors, and the job if a node has failed."""
    task = shlex.join(
        environment.task("tests.clusters.training", *WORDS, "--elastic=4", str(tmp_path))
    )
    srun = environment.FOLDER / "slurm" / "usr" / "bin" / "srun"
    script = f"export KILN_COORDINATOR_TOKEN=of-this-test; exec {srun} {task}"
    words = "-N2", "--ntasks-per-node=2", "--requeue"
    job = slurm.submit(script, tmp_path, *words)
    kill_one = killer(lambda: workers(str(tmp_path)))

    def do(kind: str) -> None:
        if kind == "node":
            kill_node(tmp_path)
            slurm.until(job, "PENDING", "FAILED", "COMPLETED")
        else:
            kill_one(0 if kind == "first" else 1)

    kill(tmp_path, shuffled(3, first=4, other=4, node=2), do)
    assert slurm.until(job, "COMPLETED", "FAILED") == "COMPLETED"
    restarts = slurm.run("scontrol", "show", "job", job, folder=tmp_path).stdout
    assert "Restarts=2" in restarts
    check(tmp_path)
