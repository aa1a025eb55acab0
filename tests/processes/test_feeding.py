"""Input pipelines of several processes, also continued by another number of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.processes import feeding
from tests.processes.launching import launched


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.full)])
def test_batches(count: int) -> None:
    done = launched("feeding", count=count, devices=2, KILN_CHECK="")
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(count):
        said = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}] check_")]
        assert said == [f"[{rank}] {check.__name__}" for check in feeding.CHECKS]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["function", "list"])
def test_a_killed_run_continues_with_other_numbers_of_processes(kind: str, tmp_path: Path) -> None:
    words = "train", str(tmp_path / "run"), kind
    assert launched("feeding", *words, "3", count=2, KILN_CHECK="").returncode == 137
    assert launched("feeding", *words, "5", count=4, devices=1, KILN_CHECK="").returncode == 137
    done = launched("feeding", *words, "-1", count=3, devices=1, KILN_CHECK="")
    assert done.returncode == 0, done.stderr
    whole = np.arange(feeding.BATCH * feeding.STEPS).reshape(feeding.STEPS, feeding.BATCH).sum(1)
    found = (tmp_path / "run" / "sums").read_text(encoding="utf-8").split()
    assert [float(each) for each in found] == whole.tolist()
