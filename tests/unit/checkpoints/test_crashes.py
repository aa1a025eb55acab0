"""Checkpoints when the machine stops at any moment, and the disk forgets what was not synced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kiln import checkpoints
from tests.unit.checkpoints.forgetful_disk import ForgetfulDisk, Tree, write_tree


def _tree(value: float) -> Any:
    return {"w": np.full(3, value, np.float32), "step": int(value)}


def _saved(work: Path, left: Tree) -> float | None:
    """Return of which step a crash left the checkpoint; None if there is none."""
    work.mkdir(exist_ok=True)
    folder = write_tree(work / str(len(list(work.iterdir()))), left) / "run" / "model"
    if not folder.exists():
        return None
    found = checkpoints.restore(folder)
    np.testing.assert_array_equal(found["w"], _tree(found["step"])["w"])
    return float(found["step"])


def test_a_crash_leaves_one_of_two_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    disk = ForgetfulDisk(root, monkeypatch)
    before = None
    for step in (1.0, 2.0, 3.0):
        checkpoints.save(root / "run" / "model", _tree(step))
        crashes, disk.crashes = disk.crashes, []
        assert len(crashes) >= 2
        assert {_saved(tmp_path / "crashed", left) for left in crashes} <= {before, step}
        assert _saved(tmp_path / "crashed", disk.left()) == step
        before = step
