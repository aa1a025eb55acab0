"""Training under Open MPI's and MPICH's `mpirun`, oversubscribed."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.clusters import environment, training
from tests.clusters.running import supervisors, until_saved, workers

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# Of Open MPI 4, and 5, for any `mpirun`: more processes than cores.
OVERSUBSCRIBED = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
COMMANDS = {
    "openmpi": ("orterun", "--oversubscribe", "-n"),
    "mpich": ("mpiexec.hydra", "-n"),
}


def command(name: str, count: int, folder: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    """Return the command that trains in processes, and its environment."""
    program, *options = COMMANDS[name]
    if not environment.has(name):
        pytest.skip(f"{name} is not there: run `make clusters`")
    path = str(environment.FOLDER / name / "usr" / "bin" / program)
    given = environment.with_libraries(name, environment.own_environment(folder))
    task = environment.task("tests.clusters.training", *words, str(folder))
    return [path, *options, str(count), *task], {**given, **AS_ROOT}


def mpirun(name: str, count: int, folder: Path, *words: str) -> tuple[int, str]:
    """Run the training in processes; return the exit code, and what was printed."""
    done = environment.run(*command(name, count, folder, *words))
    return done.returncode, done.stdout + done.stderr


@pytest.mark.clusters
@pytest.mark.full
@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("kind", training.KINDS)
@pytest.mark.parametrize("name", COMMANDS)
def test_training(name: str, kind: str, count: int, tmp_path: Path) -> None:
    code, printed = mpirun(name, count, tmp_path, kind)
    assert code == 0, printed
    # `mpirun` may put the beginnings of two lines before the ends of both.
    ranks = re.findall(rf"process (\d) of {count}", printed)
    assert sorted(ranks) == [str(rank) for rank in range(count)], printed
    found = json.loads((tmp_path / "losses.json").read_text(encoding="utf-8"))
    assert np.allclose(found, training.alone(), rtol=2e-6, atol=0)


@pytest.mark.clusters
@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("name", COMMANDS)
def test_an_elastic_program(name: str, victim: int, tmp_path: Path) -> None:
    """A worker is killed, which the manager does not notice; both go on."""
    words = "data", "--elastic=2", "--pause=1.5"
    begun, given = command(name, 2, tmp_path, *words)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(environment.run, begun, given)
        until_saved(tmp_path)
        workers(str(tmp_path))[victim].kill()
        code, printed = done.result().returncode, done.result().stdout + done.result().stderr
    assert code == 0, printed
    assert f"process {victim} of 2" in printed
    assert "was ended by SIGKILL; restart 1 of 20" in printed
    found = json.loads((tmp_path / "losses.json").read_text(encoding="utf-8"))
    assert np.allclose(found, training.alone(), rtol=2e-6, atol=0)


@pytest.mark.clusters
@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
def test_an_elastic_program_without_a_process(victim: int, tmp_path: Path) -> None:
    """A process of Open MPI is killed; with its option the other goes on alone."""
    words = "data", "--elastic=1", "--pause=1.5"
    (program, *rest), given = command("openmpi", 2, tmp_path, *words)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(environment.run, [program, "--enable-recovery", *rest], given)
        until_saved(tmp_path)
        supervisors(str(tmp_path))[victim].kill()
        printed = done.result().stdout + done.result().stderr
    assert "process 0 of 1" in printed, printed
    found = json.loads((tmp_path / "losses.json").read_text(encoding="utf-8"))
    assert np.allclose(found, training.alone(), rtol=2e-6, atol=0)


def test_an_mpirun_that_is_installed(tmp_path: Path) -> None:
    """The slice of `make test`: two processes, by the `mpirun` of its environment, or any other."""
    folders = [f"{sys.prefix}/bin", os.environ["PATH"]]
    path = shutil.which("mpirun", path=os.pathsep.join(folders))
    if path is None:
        pytest.skip("no mpirun is installed")
    command = environment.task("tests.clusters.training", "data", str(tmp_path))
    own = environment.own_environment(tmp_path)
    given = {**own, **AS_ROOT, **OVERSUBSCRIBED, "PATH": os.environ["PATH"]}
    done = environment.run([path, "-n", "2", *command], given)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "losses.json").read_text(encoding="utf-8"))
    assert np.allclose(found, training.alone(), rtol=2e-6, atol=0)
