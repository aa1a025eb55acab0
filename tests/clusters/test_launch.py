"""Training under kiln's own launcher."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.clusters import environment, training

pytestmark = [pytest.mark.clusters, pytest.mark.full]


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("kind", training.KINDS)
def test_training(kind: str, count: int, tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "kiln", "launch", "-n", str(count), "--devices", "1"]
    program = ["-m", "tests.clusters.training", kind, str(tmp_path)]
    done = environment.run([*launch, *program], environment.own_environment(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f" of {count}\n") == count
    found = json.loads((tmp_path / "losses.json").read_text(encoding="utf-8"))
    assert np.allclose(found, training.alone(), rtol=2e-6, atol=0)
