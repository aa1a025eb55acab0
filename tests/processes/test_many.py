"""Eight and sixteen processes: every collective over every dtype, arrays, and training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import kiln
from tests.processes import training
from tests.processes.collectives import collectives
from tests.processes.launching import launched

pytestmark = pytest.mark.full


@pytest.mark.parametrize("count", [4, 8, 16])
def test_collectives(count: int) -> None:
    done = launched("collectives", count=count, devices=1, KILN_CHECK="")
    assert done.returncode == 0, done.stderr
    for name, (_, _, dtypes) in collectives(count).items():
        assert f"[0] {name} of {len(dtypes)} dtypes" in done.stdout
    assert "[0] resharded" in done.stdout
    assert "[0] broadcast" in done.stdout


def test_arrays_and_training_by_eight(tmp_path: Path) -> None:
    file = tmp_path / "losses"
    done = launched("arrays_and_training", str(file), count=8, devices=1, KILN_CHECK="")
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text(encoding="utf-8"))
    for kind in training.PLACES:
        alone = training.losses(kind, kiln.devices()[:8])
        assert np.allclose(found[kind], alone, rtol=2e-6, atol=0)
