"""`python -m kiln cache`: what it prints, and what it removes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kiln.__main__ import main
from kiln.base.options.config import override
from kiln.execution.disk_cache import Entry, Folder, folder
from tests.contract.marks import contract

ENTRY = Entry("native", "all of it", "train_step", 0.025, b"code" * 1000)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Folder]:
    with override(cache_dir=str(tmp_path / "cache")):
        found = folder()
        assert found is not None
        found.put("aa", ENTRY)
        found.put("bb", ENTRY)
        yield found


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["cache", *words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@contract("16.5")
def test_list(place: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    text = capsys.readouterr().out
    assert text.count("train_step") == 2
    assert "25.0 ms" in text
    assert "2 entries" in text


def test_size_is_the_default(place: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == run("size") == 0
    one, two = capsys.readouterr().out.splitlines()
    assert one == two
    assert "2 entries" in one


@contract("16.5")
def test_clear(place: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("clear") == 0
    assert "removed" in capsys.readouterr().out
    assert place.entries() == []


@contract("16.5")
def test_verify_removes_what_is_damaged(place: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify") == 0
    path = Path(place.path, "aa.program")
    path.write_bytes(path.read_bytes()[:-1])
    assert run("list") == 0
    assert "damaged" in capsys.readouterr().out
    assert run("verify") == 1
    assert "1 entries are whole, 1 were not" in capsys.readouterr().out
    assert [each.name for each in place.entries()] == ["bb"]
    assert run("verify") == 0


def test_switched_off(capsys: pytest.CaptureFixture[str]) -> None:
    with override(cache_dir=""):
        assert run("list") == 0
    assert "switched off" in capsys.readouterr().out
