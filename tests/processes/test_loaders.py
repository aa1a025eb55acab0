"""Loaders of grain, torch and Hugging Face as sources of batches: what they read, and continue."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.processes.launching import launched
from tests.processes.loaders import IN_TURNS, LOADERS, NUMBERS

pytestmark = pytest.mark.full


def batches(folder: Path, kind: str, stop: int, count: int) -> list[set[int]]:
    """Return the numbers of each batch."""
    words = str(folder), kind, str(stop)
    done = launched("loaders", *words, count=count, devices=1, KILN_CHECK="")
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^\[0\] batch (.*)$", done.stdout, re.MULTILINE)
    return [set(map(int, each.split())) for each in found]


@pytest.mark.parametrize("kind", LOADERS)
def test_a_loader_continues(kind: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(kind.partition("-")[0]) is None:
        pytest.skip(f"{kind.partition('-')[0]} is not installed: make .venv-3.X/.has-data")
    whole = batches(tmp_path / "whole", kind, -1, 2)
    assert len(whole) == 8
    assert set().union(*whole) == set(map(int, NUMBERS))
    assert batches(tmp_path / "run", kind, 2, 2) == whole[:3]
    assert batches(tmp_path / "run", kind, -1, 2) == whole[3:]
    if kind in IN_TURNS:
        # Equal examples are taken together, whatever the number of processes.
        assert batches(tmp_path / "run", kind, -1, 4) == whole[3:]
