"""Files appear whole or not at all, and what killed writers left goes with the next one."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest

from kiln.base.files import writing as files
from kiln.base.files.writing import (
    folder_for,
    remove_abandoned,
    replacing,
    write_atomically,
    write_text,
)


def left(folder: Path, name: str) -> Path:
    """Make what a killed writer of a file leaves."""
    path = folder / f"{files._stem(name)}{'0' * 32}.tmp"
    path.write_bytes(b"half")
    return path


def test_a_file_appears_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for text in (b"first", b"second"):
        before = os.listdir(tmp_path)
        with replacing(path) as file:
            file.write(text)
            assert (path.read_bytes() if before else b"first") == b"first"
        assert path.read_bytes() == text
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a"

    def pieces():
        yield b"half"
        raise error

    for before in ([], ["a"]):
        with pytest.raises(error):
            write_atomically(path, pieces())
        assert os.listdir(tmp_path) == before
        path.write_bytes(b"old")
    assert path.read_bytes() == b"old"


def test_relative_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    left(tmp_path, "a")
    write_text("a", "é")
    assert Path("a").read_bytes() == "é".encode()
    assert os.listdir() == ["a"]


@pytest.mark.parametrize("name", ["a", "*", "a.b", "long" * 60])
def test_what_killed_writers_left_is_removed(tmp_path: Path, name: str) -> None:
    lost, others = left(tmp_path, name), [left(tmp_path, f"{name[:9]}b"), left(tmp_path, "axb")]
    with left(tmp_path, name).with_name("kept").open("wb") as file:
        # A writer that lives holds a lock.
        fcntl.flock(file, fcntl.LOCK_EX)
        os.rename(tmp_path / "kept", lost)
        remove_abandoned(tmp_path, name)
        assert lost.exists()
    write_text(tmp_path / name, "x")
    assert not lost.exists()
    assert all(path.exists() for path in others)


def test_only_files_are_taken_for_abandoned(tmp_path: Path) -> None:
    lost = left(tmp_path, "a")
    lost.unlink()
    lost.symlink_to(tmp_path / "target")
    (tmp_path / "target").write_text("x")
    remove_abandoned(tmp_path, "a")
    assert lost.is_symlink()
    lost.unlink()
    os.mkfifo(lost)
    remove_abandoned(tmp_path, "a")
    assert lost.exists()


def test_a_file_taken_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, taken = fcntl.flock, []

    def late(opened: int, how: int) -> None:
        if not taken:
            taken.extend(tmp_path.iterdir())
            taken[0].unlink()
        lock(opened, how)

    monkeypatch.setattr(fcntl, "flock", late)
    write_text(tmp_path / "a", "x")
    assert taken
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("durable", [False, True])
def test_other_writers_leave_a_file_that_has_no_name_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    replace = os.replace

    def late(beside: str, path: Path) -> None:
        remove_abandoned(tmp_path, "a")
        replace(beside, path)

    monkeypatch.setattr(os, "replace", late)
    opened = len(os.listdir("/dev/fd"))
    with replacing(tmp_path / "a", durable=durable) as file:
        file.write(b"x")
    assert (tmp_path / "a").read_bytes() == b"x"
    assert len(os.listdir("/dev/fd")) == opened


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_the_mode_of_what_is_replaced_stays(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(mode)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_links_are_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("old")
    (tmp_path / "a").symlink_to("other")
    write_text(tmp_path / "a", "new")
    assert (tmp_path / "other").read_text() == "old"
    assert not (tmp_path / "a").is_symlink()


def test_folders_made_in_vain_are_removed(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with pytest.raises(ZeroDivisionError), folder_for(tmp_path / "old" / "one" / "two"):
        assert (tmp_path / "old" / "one" / "two").is_dir()
        raise ZeroDivisionError
    assert os.listdir(tmp_path / "old") == []
    with folder_for(tmp_path / "old" / "one"):
        pass
    with pytest.raises(ZeroDivisionError), folder_for(tmp_path / "old" / "one"):
        raise ZeroDivisionError
    assert os.listdir(tmp_path / "old") == ["one"]
