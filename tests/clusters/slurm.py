"""A SLURM cluster for tests, and its commands."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.clusters import environment
from tests.structure.source_tree import REPOSITORY

LONGEST_S = 180.0


class Cluster:
    """A running cluster; `folder` holds its configuration and logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, program: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run one of SLURM's commands; what it starts has its cache in a folder."""
        path = environment.FOLDER / "slurm" / "usr" / "bin" / program
        given = environment.with_libraries("slurm", environment.own_environment(folder))
        given["SLURM_CONF"] = str(self.folder / "slurm.conf")
        return environment.run([str(path), *words], given)

    def state(self, job: str) -> str:
        """Return the state of a job, such as RUNNING."""
        done = self.run("scontrol", "show", "job", job, folder=self.folder)
        assert done.returncode == 0, done.stderr
        _, _, rest = done.stdout.partition("JobState=")
        return rest.split()[0]

    def until(self, job: str, *states: str) -> str:
        """Wait until a job has one of some states, and return it."""
        end = time.monotonic() + LONGEST_S
        while True:
            found = self.state(job)
            if found in states:
                return found
            assert time.monotonic() < end, found
            time.sleep(0.2)

    def submit(self, script: str, folder: Path, *words: str) -> str:
        """Submit a script, which writes into FOLDER/out, and return the number of the job."""
        file = folder / "job.sh"
        file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        out = f"--output={folder}/out"
        options = ["--parsable", out, "--open-mode=append", *words]
        done = self.run("sbatch", *options, str(file), folder=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start a cluster, and end it with all that it has started: this takes root."""
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command += [sys.executable, "-m", "tests.clusters.slurm_daemons", str(folder)]
    given = environment.with_libraries("slurm", dict(os.environ))
    with (folder / "daemons.err").open("w") as err:
        daemons = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=given,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
    assert daemons.stdin is not None
    assert daemons.stdout is not None
    try:
        if daemons.stdout.readline() != "ready\n":
            raise RuntimeError((folder / "daemons.err").read_text(encoding="utf-8"))
        yield Cluster(folder)
    finally:
        daemons.stdin.close()
        try:
            daemons.wait(20)
        finally:
            daemons.kill()
