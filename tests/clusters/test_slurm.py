"""Training under SLURM: a controller and four nodes on this machine."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.clusters import environment, training
from tests.clusters.running import supervisors, tasks, until_saved
from tests.clusters.slurm import LONGEST_S, Cluster, cluster

pytestmark = [pytest.mark.clusters, pytest.mark.full]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not environment.has("slurm"):
        pytest.skip("SLURM is not there: run `make clusters`")
    if os.geteuid() != 0:
        pytest.skip("daemons and /etc/hosts are in namespaces of their own, which takes root")
    with cluster(tmp_path_factory.mktemp("slurm")) as found:
        yield found


def losses(folder: Path) -> list[float]:
    found: list[float] = json.loads((folder / "losses.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(("nodes", "count"), [(2, 2), (4, 4), (4, 8)])
@pytest.mark.parametrize("kind", training.KINDS)
def test_training(slurm: Cluster, kind: str, nodes: int, count: int, tmp_path: Path) -> None:
    task = environment.task("tests.clusters.training", kind, str(tmp_path))
    done = slurm.run("srun", f"-N{nodes}", f"-n{count}", *task, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f" of {count}\n") == count
    assert np.allclose(losses(tmp_path), training.alone(), rtol=2e-6, atol=0)


def pausing(
    folder: Path,
    kind: str = "data",
    pause: float = 0.5,
    option: str = "--save",
    srun: str = "--kill-on-bad-exit=1",
) -> str:
    """Return a script that trains, saves, and continues from the last step that was saved."""
    words = [kind, str(folder), option, f"--pause={pause}"]
    task = shlex.join(environment.task("tests.clusters.training", *words))
    program = environment.FOLDER / "slurm" / "usr" / "bin" / "srun"
    return f"export KILN_COORDINATOR_TOKEN=of-this-test; exec {program} {srun} {task}"


@pytest.mark.parametrize("kind", training.KINDS)
def test_a_node_that_fails_is_replaced(slurm: Cluster, kind: str, tmp_path: Path) -> None:
    """The job is queued again, and its curve is that of an unbroken run."""
    script = pausing(tmp_path, kind)
    job = slurm.submit(script, tmp_path, "-N2", "-n4", "--requeue")
    until_saved(tmp_path)
    nodes = slurm.run("squeue", "-h", "-j", job, "-o", "%N", folder=tmp_path).stdout.strip()
    victim = nodes.replace("[", "").replace("]", "").replace("-", ",").split(",")[-1]
    node = f"n{victim.removeprefix('n')}"
    down = ["update", f"NodeName={node}", "State=DOWN", "Reason=test"]
    assert slurm.run("scontrol", *down, folder=tmp_path).returncode == 0
    started_again(slurm, job, tmp_path)
    # The daemon of the node may have reported it as usable meanwhile: then this is an error.
    slurm.run("scontrol", "update", f"NodeName={node}", "State=RESUME", folder=tmp_path)
    assert np.allclose(losses(tmp_path), training.alone(), rtol=2e-6, atol=0)


def started_again(slurm: Cluster, job: str, folder: Path) -> None:
    """Wait until a job is queued again, and then until its end."""
    assert slurm.until(job, "PENDING", "FAILED", "COMPLETED") == "PENDING"
    assert not (folder / "losses.json").exists()
    assert slurm.until(job, "COMPLETED", "FAILED") == "COMPLETED"


def test_an_elastic_program_goes_on_without_a_node(slurm: Cluster, tmp_path: Path) -> None:
    """In the same step of the job: four processes on two nodes, then two on the first of them."""
    script = pausing(tmp_path, "fsdp", option="--elastic=2", srun="--no-kill --wait=0")
    job = slurm.submit(script, tmp_path, "-N2", "--ntasks-per-node=2", "--no-kill")
    until_saved(tmp_path)
    first = slurm.run("squeue", "-h", "-j", job, "-o", "%B", folder=tmp_path).stdout.strip()
    victims = [t for t in supervisors(str(tmp_path)) if t.variables["SLURMD_NODENAME"] != first]
    assert len(victims) == 2
    for each in victims:
        each.kill()
    # The job's exit code is the highest of its tasks: of those that were killed.
    assert slurm.until(job, "COMPLETED", "FAILED") == "FAILED"
    printed = (tmp_path / "out").read_text(encoding="utf-8")
    assert "process 1 of 4" in printed
    assert "process 1 of 2" in printed, printed
    assert np.allclose(losses(tmp_path), training.alone(), rtol=2e-6, atol=0)


def test_preemption_loses_no_step(slurm: Cluster, tmp_path: Path) -> None:
    """SIGTERM, as before the end of a job's time: all save at one step, and the job continues."""
    script = pausing(tmp_path, pause=1.0, option="--until-preempted")
    job = slurm.submit(script, tmp_path, "-N2", "-n4", "--requeue")
    out, end = tmp_path / "out", time.monotonic() + LONGEST_S
    while not out.exists() or "step 1\n" not in out.read_text(encoding="utf-8"):
        assert time.monotonic() < end, slurm.state(job)
        time.sleep(0.05)
    assert slurm.run("scancel", "--signal=TERM", job, folder=tmp_path).returncode == 0
    started_again(slurm, job, tmp_path)
    printed = out.read_text(encoding="utf-8")
    stops = re.findall(r"stopped after step (\d)", printed)
    assert len(stops) == 4, printed
    assert len(set(stops)) == 1
    steps = re.findall(r"^step (\d)$", printed, re.MULTILINE)
    assert steps == [str(number) for number in range(training.STEPS)]
    assert np.allclose(losses(tmp_path), training.alone(), rtol=2e-6, atol=0)


def test_a_job_that_is_cancelled_leaves_nothing(slurm: Cluster, tmp_path: Path) -> None:
    job = slurm.submit(pausing(tmp_path, pause=30.0), tmp_path, "-N2", "-n4")
    out, end = tmp_path / "out", time.monotonic() + LONGEST_S
    while not out.exists() or "process 3 of 4" not in out.read_text(encoding="utf-8"):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert slurm.run("scancel", job, folder=tmp_path).returncode == 0
    assert slurm.until(job, "CANCELLED", "FAILED") == "CANCELLED"
    end = time.monotonic() + LONGEST_S
    while tasks(str(tmp_path)):
        assert time.monotonic() < end, tasks(str(tmp_path))
        time.sleep(0.1)
    assert not (tmp_path / "losses.json").exists()
