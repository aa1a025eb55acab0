"""Elastic programs: they go on after failures, with fewer or more processes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import kiln
from tests.contract.marks import contract
from tests.processes import training
from tests.processes.launching import launched

full = pytest.mark.full
"""More processes and rounds than a short test run has time for."""


def trained(
    folder: Path,
    *failures: str,
    count: int,
    least: int = 1,
    most: int | None = None,
    whole: int = 0,
    replaced: int = 0,
    **options: str,
) -> subprocess.CompletedProcess[str]:
    """Train to the end in spite of failures, and check that the losses are an unbroken run's."""
    words = [str(each) for each in (folder, least, most or count, whole)]
    given = {"count": count, "devices": 1, "restarts": replaced, "KILN_CHECK": "", **options}
    done = launched("elastic", *words, *failures, **given)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "losses").read_text(encoding="utf-8"))
    alone = training.losses("sharded", kiln.devices()[:count])
    assert np.allclose(found, alone, rtol=2e-6, atol=0)
    return done


def rounds(done: subprocess.CompletedProcess[str]) -> list[tuple[int, int]]:
    """Return the rounds that have completed a step, each with its number of processes."""
    found = re.findall(r"round (\d) step \d of (\d)", done.stdout)
    return sorted({(int(number), int(count)) for number, count in found})


@contract("18.4")
def test_the_others_go_on_when_the_first_is_lost(tmp_path: Path) -> None:
    done = trained(tmp_path, "0:2:0:supervisor", count=2)
    assert rounds(done) == [(0, 2), (1, 1)]
    assert "process 0 of 2 was ended by SIGKILL; the others go on" in done.stderr
    assert "supervisor 0, which led, has ended; restart 1 of 2" in done.stderr


@full
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("worker", r"process {} of 4 \(127.0.0.1\) was ended by SIGKILL"),
        ("raise", r"process {} of 4 \(127.0.0.1\) failed with exit code 1"),
        ("hang", r"failed with exit code 1: process {} has not reached program \d+ \(train_step\)"),
        ("stop", r"failed with exit code 1: process {} has not answered for 5 seconds"),
    ],
)
def test_a_worker_fails(how: str, said: str, victim: int, tmp_path: Path) -> None:
    """All four go on."""
    limit = "3" if how == "hang" else "0"
    failure = f"0:3:{victim}:{how}"
    done = trained(tmp_path, failure, count=4, least=4, KILN_COLLECTIVE_TIMEOUT=limit)
    assert rounds(done) == [(0, 4), (1, 4)]
    wanted = f"round 0 of 4 processes has failed: .*{said.format(victim)}.*; restart 1 of 2"
    assert re.search(wanted, done.stderr), done.stderr


@contract("18.4")
@full
@pytest.mark.parametrize("victim", [0, 2])
def test_one_is_lost_and_replaced(victim: int, tmp_path: Path) -> None:
    """Four processes, then three, then four again."""
    failure = f"0:2:{victim}:supervisor"
    done = trained(tmp_path, failure, count=4, least=2, whole=4, replaced=1)
    assert rounds(done) == [(0, 4), (1, 3), (2, 4)]
    assert f"process {victim} is started again: restart 1 of 1" in done.stderr
    assert f"round 2 starts with 4 processes; supervisor {victim} has joined" in done.stderr


@full
def test_two_are_lost_one_after_another(tmp_path: Path) -> None:
    """Both times it is the one that leads."""
    done = trained(tmp_path, "0:2:0:supervisor", "1:5:0:supervisor", count=4, least=2)
    assert rounds(done) == [(0, 4), (1, 3), (2, 2)]


@full
def test_one_beyond_the_most_replaces_a_lost_one(tmp_path: Path) -> None:
    done = trained(tmp_path, "0:2:1:supervisor", count=3, most=2)
    assert rounds(done) == [(0, 2), (1, 2)]


@full
def test_a_program_that_always_fails(tmp_path: Path) -> None:
    failures = [f"{number}:0:1:raise" for number in range(4)]
    failures += [f"{number}:{number}:1:raise" for number in range(1, 4)]
    done = launched("elastic", str(tmp_path), "2", "2", "0", *failures, devices=1, KILN_CHECK="")
    assert done.returncode == 1
    assert "failed with exit code 1; 2 restarts were allowed" in done.stderr
