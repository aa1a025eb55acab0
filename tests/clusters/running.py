"""The processes of a training run that run on this machine, under any manager."""

from __future__ import annotations

import os
import time
from pathlib import Path

from kiln.core.processes.worker import PIPE

RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "JAX_PROCESS_ID")
LONGEST_S = 180.0


class Task:
    """A process: its number, the variables it was started with, and its rank."""

    def __init__(self, pid: int, variables: dict[str, str]) -> None:
        self.pid = pid
        self.variables = variables
        names = ["JAX_PROCESS_ID", *RANKS] if PIPE in variables else RANKS
        self.rank = int(next((variables[n] for n in names if n in variables), -1))

    @property
    def is_worker(self) -> bool:
        """Whether it was started by the supervisor of an elastic program."""
        return PIPE in self.variables

    def kill(self) -> None:
        """Kill it, with signal 9."""
        os.kill(self.pid, 9)


def tasks(word: str) -> list[Task]:
    """Return the processes that train with a word among their arguments."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and each.name != str(os.getpid()):
            try:
                command = (each / "cmdline").read_bytes().decode(errors="replace").split("\0")
                text = (each / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            # Not `srun`, `mpirun` and their like, which have the same words after their own.
            is_python = "python" in Path(command[0]).name
            if is_python and "tests.clusters.training" in command[:4] and word in command:
                given = dict(each.partition("=")[::2] for each in text.split("\0"))
                found.append(Task(int(each.name), given))
    return found


def supervisors(word: str) -> list[Task]:
    """Return the supervisors of an elastic program, by rank."""
    return sorted((t for t in tasks(word) if not t.is_worker), key=lambda task: task.rank)


def workers(word: str) -> list[Task]:
    """Return the workers of an elastic program, by rank."""
    return sorted((t for t in tasks(word) if t.is_worker), key=lambda task: task.rank)


def saved_steps(folder: Path) -> list[int]:
    """Return the steps that a run has saved."""
    place = folder / "checkpoints"
    names = os.listdir(place) if place.is_dir() else []
    return sorted(int(name.removeprefix("step-")) for name in names if name[5:].isdigit())


def until_saved(folder: Path, step: int = 0) -> None:
    """Wait until a run has saved a step, or a later one."""
    end = time.monotonic() + LONGEST_S
    while max(saved_steps(folder), default=-1) < step:
        assert time.monotonic() < end, saved_steps(folder)
        time.sleep(0.05)
