"""The folder of compiled programs: whole entries or none, whatever happens to its files."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from kiln.base.config import override
from kiln.execution import disk_cache
from kiln.execution.disk_cache import Damaged, Entry, Folder, chosen_path, counts, folder
from tests.contract.marks import contract

ENTRY = Entry("native", "all of it", "f", 0.25, bytes(range(256)) * 4)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """Return an empty folder; the next warning is the process's first."""
    monkeypatch.setattr(disk_cache, "_warned", False)
    with override(cache_dir=str(tmp_path / "cache")):
        found = folder()
        assert found is not None
        yield found


def path_of(place: Folder, name: str) -> Path:
    return Path(place.path, f"{name}.program")


def test_what_was_put_comes_back(place: Folder) -> None:
    assert place.get("a") is None
    assert place.put("a", ENTRY)
    assert place.get("a") == ENTRY
    assert [each.name for each in place.entries()] == ["a"]
    # Nobody else may write what this user runs.
    assert Path(place.path).stat().st_mode & 0o777 == 0o700
    assert path_of(place, "a").stat().st_mode & 0o777 == 0o600


def test_lines_of_texts_are_one(place: Folder) -> None:
    place.put("a", ENTRY._replace(reason="one\ntwo", program="f\n"))
    assert place.check("a") == ENTRY._replace(reason="one two", program="f ")


@contract("16.3")
@pytest.mark.parametrize("how", ["truncated", "flipped"])
def test_damaged_entries_are_none(place: Folder, how: str) -> None:
    chance = random.Random(how)
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        for _ in range(100):
            place.put("a", ENTRY)
            path = path_of(place, "a")
            data = bytearray(path.read_bytes())
            if how == "truncated":
                data = data[: chance.randrange(len(data))]
            else:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(data)
            assert place.get("a") is None
            # What cannot be used is not looked at twice.
            assert not path.exists()
    assert len(records) == 1
    assert "verify" in str(records[0].message)


@contract("16.3")
def test_entries_of_others_are_none(place: Folder) -> None:
    place.put("a", ENTRY)
    path_of(place, "a").rename(path_of(place, "b"))
    with pytest.raises(Damaged, match="another program"):
        place.check("b")
    with pytest.warns(RuntimeWarning, match="another program"):
        assert place.get("b") is None
    path_of(place, "c").write_bytes(b"\x7fELF")
    assert place.get("c") is None


@contract("16.5")
def test_the_least_recently_used_go_first(place: Folder) -> None:
    for number, name in enumerate("abcd"):
        place.put(name, ENTRY)
        stamp = time.time() - 1000 + number
        os.utime(path_of(place, name), (stamp, stamp))
    assert place.get("a") == ENTRY
    size = place.entries()[0].size
    before = counts.evicted
    place.shrink(2 * size)
    assert [each.name for each in place.entries()] == ["d", "a"]
    assert counts.evicted == before + 2


@contract("16.5")
def test_the_folder_stays_within_its_limit(place: Folder) -> None:
    big = ENTRY._replace(code=bytes(100_000))
    with override(disk_cache_mb=1):
        for number in range(40):
            place.put(f"{number:02}", big)
    # Writers look at the whole of it after each sixteenth of the limit.
    assert sum(each.size for each in place.entries()) <= (1 << 20) * 17 // 16 + 110_000
    assert place.entries()[-1].name == "39"


def test_what_is_too_big_is_not_kept(place: Folder) -> None:
    with override(disk_cache_mb=1):
        assert not place.put("a", ENTRY._replace(code=bytes(300_000)))
    assert place.entries() == []


@contract("16.6")
def test_what_killed_writers_left_is_removed(place: Folder) -> None:
    lost, young = Path(place.path, ".1-0-0.tmp"), Path(place.path, ".2-0-0.tmp")
    for path in (lost, young):
        path.write_bytes(b"x")
    os.utime(lost, (1, 1))
    place.shrink(1 << 20)
    assert young.exists()
    assert not lost.exists()
    place.put("a", ENTRY)
    assert place.clear() > 0
    assert list(Path(place.path).iterdir()) == []


def test_a_folder_that_vanishes_is_no_error(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    os.rmdir(place.path)
    with pytest.warns(RuntimeWarning, match="not kept"):
        assert not place.put("a", ENTRY)
    # It was said once; from then on nothing is tried.
    assert not place.put("a", ENTRY)
    assert place.get("a") is None
    assert place.entries() == []


@contract("16.4")
@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_others_must_not_enter(tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_warned", False)
    (tmp_path / "open").mkdir()
    os.chmod(tmp_path / "open", mode)
    with override(cache_dir=str(tmp_path / "open")):
        with pytest.warns(RuntimeWarning, match="others may enter"):
            assert folder() is None
        assert folder() is None


@contract("16.4")
def test_the_owner_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_warned", False)
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with (
        override(cache_dir=str(tmp_path / "mine")),
        pytest.warns(RuntimeWarning, match="belongs to the user"),
    ):
        assert folder() is None


@contract("16.4")
def test_a_file_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_warned", False)
    (tmp_path / "file").write_text("")
    with (
        override(cache_dir=str(tmp_path / "file")),
        pytest.warns(RuntimeWarning, match="no folder"),
    ):
        assert folder() is None


@contract("16.4")
def test_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    with override(cache_dir="auto"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert chosen_path() == str(tmp_path / "kiln")
        for relative in ("", "here"):
            monkeypatch.setenv("XDG_CACHE_HOME", relative)
            assert chosen_path() == "/home/somebody/.cache/kiln"
    with override(cache_dir="~/programs"):
        assert chosen_path() == "/home/somebody/programs"
    with override(cache_dir=""):
        assert chosen_path() is None
        assert folder() is None


WRITER = """
import sys
from kiln.base.config import override
from kiln.execution.disk_cache import Entry, folder
with override(cache_dir=sys.argv[1], disk_cache_mb=64):
    place = folder()
    print("begins", flush=True)
    for number in range(10**9):
        code = bytes([number % 251]) * (200_000 + number % 7)
        place.put(f"{number % 5}", Entry("native", "test", "f", 0.0, code))
"""


@contract("16.6")
@pytest.mark.full
def test_killed_writers_break_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_warned", False)
    path, chance = str(tmp_path / "cache"), random.Random(0)
    with override(cache_dir=path):
        place = folder()
        assert place is not None
        for _ in range(50):
            command = [sys.executable, "-c", WRITER, path]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
                assert writer.stdout is not None
                writer.stdout.readline()
                time.sleep(chance.random() * 0.05)
                writer.send_signal(signal.SIGKILL)
            for each in place.entries():
                code = place.check(each.name).code
                assert len(set(code)) == 1
    assert place.entries()
