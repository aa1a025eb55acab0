from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kiln.numpy as jnp
from kiln.checkpoints import Checkpoints, saving
from tests.contract.marks import contract


@contract("18.5")
def test_the_last_are_kept(tmp_path: Path) -> None:
    run = Checkpoints(tmp_path / "run", keep=2)
    assert run.latest() is None
    assert run.steps() == []
    for step in (1, 5, 10, 100_000_000):
        run.save(step, {"w": jnp.full(2, step), "step": step}, metadata={"step": step})
    assert run.steps() == [10, 100_000_000]
    assert run.latest() == 100_000_000
    assert run.restore()["step"] == 100_000_000
    assert run.restore(10, {"w": np.zeros(2, np.int32), "step": 0})["w"].tolist() == [10, 10]
    assert run.restore(target={"step": 0}, strict=False) == {"step": 100_000_000}
    with run.open(10) as checkpoint:
        assert checkpoint.metadata == {"step": 10}
        assert checkpoint["step"] == 10
    assert len(list(run.folder.iterdir())) == 2
    assert "keep=2" in repr(run)
    # Another object, as after a restart; a smaller step than the last is kept when it is saved.
    again = Checkpoints(tmp_path / "run", keep=2)
    again.save(3, {"step": 3})
    assert again.steps() == [3, 100_000_000]
    again.save(3, {"step": 33})
    assert again.restore(3) == {"step": 33}


def test_all_are_kept_without_a_number(tmp_path: Path) -> None:
    run = Checkpoints(tmp_path)
    for step in range(4):
        run.save(step, step, wait=False)
    run.save(4, 4)
    assert run.steps() == [0, 1, 2, 3, 4]


def test_what_is_incomplete_or_abandoned_is_no_step(tmp_path: Path) -> None:
    run = Checkpoints(tmp_path, keep=3)
    run.save(1, 1)
    (tmp_path / "step-00000002").mkdir()
    (tmp_path / f".step-00000003.{'a' * 32}.tmp").mkdir()
    (tmp_path / "step-x").touch()
    assert run.steps() == [1]
    run.save(4, 4)
    assert run.steps() == [1, 4]
    assert not (tmp_path / f".step-00000003.{'a' * 32}.tmp").exists()
    assert (tmp_path / "step-x").exists()
    run.save(2, 2)
    assert run.steps() == [1, 2, 4]


@contract("18.5")
def test_a_failed_save_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Checkpoints(tmp_path, keep=1)
    run.save(1, 1)
    monkeypatch.setattr(saving, "write_blocks", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run.save(2, 2, wait=False).wait()
    assert run.steps() == [1]
    assert run.restore() == 1


def test_mistakes(tmp_path: Path) -> None:
    run = Checkpoints(tmp_path)
    with pytest.raises(FileNotFoundError, match="no checkpoint yet"):
        run.restore()
    run.save(2, 2)
    with pytest.raises(FileNotFoundError, match=r"of the steps \[2\]") as caught:
        run.restore(3)
    assert len(str(caught.value).splitlines()) == 3
    with pytest.raises(ValueError, match="keep=0"):
        Checkpoints(tmp_path, keep=0)
    with pytest.raises(ValueError, match="from 0"):
        run.save(-1, 1)
    with pytest.raises(TypeError):
        run.save(1.5, 1)
