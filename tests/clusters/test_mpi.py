"""Training under Open MPI's and MPICH's `mpirun`, oversubscribed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.clusters import environment, training

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
COMMANDS = {
    "openmpi": ("orterun", "--oversubscribe", "-n"),
    "mpich": ("mpiexec.hydra", "-n"),
}


def mpirun(name: str, count: int, folder: Path, *words: str) -> tuple[int, str]:
    """Run the training in processes; return the exit code, and what was printed."""
    program, *options = COMMANDS[name]
    if environment.has(name):
        path = str(environment.FOLDER / name / "usr" / "bin" / program)
        given = environment.with_libraries(name, environment.own_environment(folder))
    else:
        pytest.skip(f"{name} is not there: run `make clusters`")
    command = environment.task("tests.clusters.training", *words, str(folder))
    done = environment.run([path, *options, str(count), *command], {**given, **AS_ROOT})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.clusters
@pytest.mark.full
@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("kind", training.KINDS)
@pytest.mark.parametrize("name", COMMANDS)
def test_training(name: str, kind: str, count: int, tmp_path: Path) -> None:
    code, printed = mpirun(name, count, tmp_path, kind)
    assert code == 0, printed
    assert printed.count(f" of {count}\n") == count, printed
    found = json.loads((tmp_path / "losses.json").read_text(encoding="utf-8"))
    assert np.allclose(found, training.alone(), rtol=2e-6, atol=0)


def test_an_mpirun_that_is_installed(tmp_path: Path) -> None:
    """The slice of `make test`: two processes, of any MPI."""
    path = shutil.which("mpirun")
    if path is None:
        pytest.skip("no mpirun is installed")
    command = environment.task("tests.clusters.training", "data", str(tmp_path))
    given = {**environment.own_environment(tmp_path), **AS_ROOT, "PATH": os.environ["PATH"]}
    done = environment.run([path, "-n", "2", *command], given)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "losses.json").read_text(encoding="utf-8"))
    assert np.allclose(found, training.alone(), rtol=2e-6, atol=0)
