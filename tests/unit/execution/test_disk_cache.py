"""The folder of compiled programs: whole entries or none, whatever happens to its files."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kiln.base.options.config import override
from kiln.execution import disk_cache, own_folder
from kiln.execution.disk_cache import Damaged, Entry, Folder, chosen_path, counts, folder
from tests.contract.marks import contract

ENTRY = Entry("native", "all of it", "f", 0.25, bytes(range(256)) * 4)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """Return an empty folder; the next warning is the process's first."""
    monkeypatch.setattr(disk_cache, "_warned", set())
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
    path_of(place, "c").touch(0o600)
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
    with young.open("wb") as writing:
        # A writer that lives holds a lock.
        fcntl.flock(writing, fcntl.LOCK_EX)
        place.shrink(1 << 20)
        assert young.exists()
        assert not lost.exists()
        place.put("a", ENTRY)
        assert place.clear() > 0
        assert list(Path(place.path).iterdir()) == [young]
    assert place.clear() == 0
    assert list(Path(place.path).iterdir()) == []


@contract("16.5")
def test_what_is_not_the_cache_s_stays(place: Folder) -> None:
    others = [Path(place.path, name) for name in ("mine.tmp", "notes.txt", ".hidden.tmp")]
    for path in others:
        path.write_bytes(b"x")
        os.utime(path, (1, 1))
    place.put("a", ENTRY)
    place.shrink(0)
    place.clear()
    assert sorted(Path(place.path).iterdir()) == sorted(others)


@contract("16.5")
def test_writers_go_on_after_a_clearing(
    place: Folder, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    replace, cleared = os.replace, []

    def replaced(*names: Any, **folders: Any) -> None:
        if not cleared:
            # Where there are no locks, a clearing takes what is being written.
            cleared.append(names)
            for path in Path(place.path).glob(".*.tmp"):
                path.unlink()
        replace(*names, **folders)

    monkeypatch.setattr(os, "replace", replaced)
    assert place.put("a", ENTRY)
    place.clear()
    assert place.put("b", ENTRY)
    assert [each.name for each in place.entries()] == ["b"]
    assert not recwarn.list


@contract("16.6")
def test_writers_go_on_when_the_disk_has_room_again(
    place: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def full(*_: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(os, "write", full)
        with pytest.warns(RuntimeWarning, match="not kept in .*No space left"):
            assert not place.put("a", ENTRY)
        assert not place.put("a", ENTRY)
    assert os.listdir(place.path) == []
    assert place.put("a", ENTRY)
    assert place.get("a") == ENTRY


@contract("16.5")
def test_a_folder_that_was_removed_is_made_again(
    place: Folder, recwarn: pytest.WarningsRecorder
) -> None:
    place.put("a", ENTRY)
    shutil.rmtree(place.path)
    assert place.get("a") is None
    assert place.entries() == []
    assert not place.put("a", ENTRY)
    again = folder()
    assert again is not None
    assert again.put("a", ENTRY)
    assert again.get("a") == ENTRY
    assert not recwarn.list


@contract("16.4")
@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_others_must_not_enter(tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_warned", set())
    (tmp_path / "open").mkdir()
    os.chmod(tmp_path / "open", mode)
    with override(cache_dir=str(tmp_path / "open")):
        with pytest.warns(RuntimeWarning, match="others may enter"):
            assert folder() is None
        assert folder() is None


@contract("16.4")
def test_the_owner_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_warned", set())
    owner = os.geteuid()
    (tmp_path / "mine").mkdir(0o700)
    # The folders on the way are root's, or this user's.
    monkeypatch.setattr(own_folder, "_require_closed", lambda _: None)
    for name in ("getuid", "geteuid"):
        monkeypatch.setattr(os, name, lambda: owner + 1)
    with (
        override(cache_dir=str(tmp_path / "mine")),
        pytest.warns(RuntimeWarning, match="belongs to the user"),
    ):
        assert folder() is None


@contract("16.4")
def test_a_file_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_warned", set())
    (tmp_path / "file").write_text("")
    with (
        override(cache_dir=str(tmp_path / "file")),
        pytest.warns(RuntimeWarning, match="not a folder"),
    ):
        assert folder() is None


@contract("16.4")
def test_a_home_that_is_no_folder_is_no_trust_betrayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "_warned", set())
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / "file").write_text("")
    for home in ("/dev/null", str(tmp_path / "file")):
        monkeypatch.setenv("HOME", home)
        with override(cache_dir="auto"), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert folder() is None
    with (
        override(cache_dir=str(tmp_path / "file" / "cache")),
        pytest.warns(
            RuntimeWarning, match="not kept: the folder of the cache.*file is not a folder"
        ),
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
import tempfile
from kiln.base.options.config import override
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
    monkeypatch.setattr(disk_cache, "_warned", set())
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


@contract("16.4")
def test_a_file_that_others_could_write_switches_the_cache_off(place: Folder) -> None:
    for name in "ab":
        place.put(name, ENTRY)
    path_of(place, "a").chmod(0o666)
    with pytest.warns(RuntimeWarning, match="could run code as you: remove it.*rm -r"):
        assert place.get("a") is None
    # Who wrote that file may have moved others here.
    assert place.get("b") is None
    assert not place.put("c", ENTRY)
    assert folder() is None
    # It is for the user to look at.
    assert path_of(place, "a").exists()


@contract("16.4")
def test_verify_and_clear_see_what_others_could_write(place: Folder) -> None:
    place.put("a", ENTRY)
    path_of(place, "a").chmod(0o666)
    with pytest.raises(Damaged, match="others may open it"):
        place.check("a")
    place.clear()
    assert os.listdir(place.path) == []


PLANTING = """
import os, sys
from pathlib import Path
os.setgid(54321)
os.setuid(54321)
Path(sys.argv[2]).write_bytes(Path(sys.argv[1]).read_bytes())
os.chmod(sys.argv[2], 0o600)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@contract("16.4")
def test_what_another_user_planted_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "_warned", set())
    # pytest's folders are closed to others.
    home = Path(tempfile.mkdtemp())
    try:
        home.chmod(0o755)
        with override(cache_dir=str(home / "cache")):
            mine = folder()
            assert mine is not None
            (home / "cache").chmod(0o777)
            # Its checksum is right.
            (home / "crafted").write_bytes(disk_cache.written("b", ENTRY))
            names = [str(home / "crafted"), str(path_of(mine, "b"))]
            subprocess.run([sys.executable, "-c", PLANTING, *names], check=True)
            disk_cache._folders.clear()
            with pytest.warns(RuntimeWarning, match="others may enter"):
                assert folder() is None
            # What users used to do then.
            (home / "cache").chmod(0o700)
            disk_cache._folders.clear()
            disk_cache._warned.clear()
            found = folder()
            assert found is not None
            with pytest.warns(RuntimeWarning, match="belongs to the user with number 54321"):
                assert found.get("b") is None
            assert folder() is None
    finally:
        shutil.rmtree(home)
