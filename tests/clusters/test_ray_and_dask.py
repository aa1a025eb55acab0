"""Training by actors of Ray and by workers of Dask."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from tests.clusters import environment, training

pytestmark = [
    pytest.mark.clusters,
    pytest.mark.full,
    pytest.mark.skipif(not environment.PYTHON.exists(), reason="run `make clusters`"),
]


def run(manager: str, kind: str, folder: Path, *words: str, steps: int = training.STEPS) -> str:
    """Run a training, and return what its driver printed."""
    given = {
        **environment.own_environment(folder),
        "PATH": os.environ["PATH"],
        "KILN_COORDINATOR_TOKEN": "secret of this test",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        # Other programs of a busy machine would leave them no time.
        "RAY_worker_niceness": "0",
    }
    module = f"tests.clusters.{manager}_training"
    command = [str(environment.PYTHON), "-m", module, kind, str(folder), *words]
    done = environment.run(command, given)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((folder / "losses.json").read_text(encoding="utf-8"))
    assert np.allclose(found, training.alone(steps), rtol=2e-6, atol=0)
    return done.stdout


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("kind", training.KINDS)
def test_actors_of_ray(kind: str, count: int, tmp_path: Path) -> None:
    run("ray", kind, tmp_path, str(count))


@pytest.mark.parametrize("victim", [0, 1])
def test_an_actor_that_is_lost_is_replaced(victim: int, tmp_path: Path) -> None:
    printed = run("ray", "fsdp", tmp_path, "2", f"--lose={victim}")
    said = dict(re.findall(r"actor (\d): (.*)", printed))
    assert f"process {victim} has ended" in said[str(1 - victim)], printed
    assert str(victim) in said


def test_ten_actors_are_lost_at_random(tmp_path: Path) -> None:
    """The driver starts others; which ones are lost is the same in each run."""
    victims = "0,1,1,0,1,0,0,1,0,1"
    printed = run("ray", "data", tmp_path, "2", f"--lose={victims}", "--steps=40", steps=40)
    for victim in "01":
        said = printed.count(f"actor {1 - int(victim)}: process {victim} has ended")
        assert said == victims.count(victim), printed


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("kind", training.KINDS)
def test_workers_of_dask(kind: str, count: int, tmp_path: Path) -> None:
    run("dask", kind, tmp_path, str(count))


def test_ten_workers_of_dask_are_lost_at_random(tmp_path: Path) -> None:
    victims = "0,1,1,0,1,0,0,1,0,1"
    printed = run("dask", "data", tmp_path, "2", f"--lose={victims}", "--steps=40", steps=40)
    for victim in "01":
        said = printed.count(f"worker {1 - int(victim)}: process {victim} has ended")
        assert said == victims.count(victim), printed
