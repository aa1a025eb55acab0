"""A kill at any moment leaves the old checkpoint or the new one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.marks import contract
from tests.structure.source_tree import REPOSITORY


@contract("18.4")
@pytest.mark.parametrize(
    ("count", "seed"),
    [(20, 0), *[pytest.param(100, seed, marks=pytest.mark.full) for seed in (1, 2, 3)]],
)
def test_kills_at_random_moments_lose_nothing(tmp_path: Path, count: int, seed: int) -> None:
    command = [sys.executable, "-m", "tests.killed", str(tmp_path), str(count), str(seed)]
    done = subprocess.run(
        command, check=False, cwd=REPOSITORY, capture_output=True, text=True, timeout=280
    )
    assert done.stdout == "fine\n", done.stdout + done.stderr
