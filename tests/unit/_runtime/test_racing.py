"""What two threads do to one array or tree at the same time raises what is promised, or works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("seconds", [0.1, pytest.param(10, marks=pytest.mark.full)])
def test_pairs_of_operations(seconds: float) -> None:
    command = [sys.executable, "-X", "faulthandler", *["-S"] * sys.flags.no_site]
    done = subprocess.run(
        [*command, "-m", "tests.unit._runtime.racing", str(seconds)],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-300:]}\n{done.stderr[-3000:]}"
    assert "survived" in done.stdout
