"""A folder that nobody else can fill: what is refused, and what renaming it cannot change."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kiln.execution import own_folder
from kiln.execution.own_folder import Foreign, ForeignWay, OwnFolder
from tests.contract.marks import contract

STRANGER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


def opened(tmp_path: Path) -> OwnFolder:
    """Return a folder with a file."""
    made = OwnFolder(str(tmp_path / "cache"))
    made.write("a", b"content")
    return made


def test_what_was_written_is_read(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    assert folder.read("a")[0] == b"content"
    folder.write("a", b"other")
    assert folder.read("a")[0] == b"other"
    assert [each.name for each in folder.files()] == ["a"]
    folder.touch("a")
    folder.remove("a")
    folder.remove("a")
    with pytest.raises(FileNotFoundError):
        folder.read("a")


def test_folders_on_the_way_are_made_for_this_user_alone(tmp_path: Path) -> None:
    OwnFolder(str(tmp_path / "one" / "two"))
    for path in (tmp_path / "one", tmp_path / "one" / "two"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def replaced_by_link(path: Path) -> None:
    """Put a link in place of a file, to a file that would be right."""
    path.rename(path.with_name("b"))
    path.symlink_to("b")


def replaced_by_pipe(path: Path) -> None:
    """Put a pipe in place of a file: reading it would wait forever."""
    path.unlink()
    os.mkfifo(path, 0o600)


def replaced_by_socket(path: Path) -> None:
    """Put a socket in place of a file."""
    path.unlink()
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def replaced_by_folder(path: Path) -> None:
    """Put a folder in place of a file."""
    path.unlink()
    path.mkdir(0o700)


PLANTED: list[Callable[[Path], None]] = [
    replaced_by_link,
    replaced_by_pipe,
    replaced_by_socket,
    replaced_by_folder,
]


@contract("16.4")
@pytest.mark.parametrize("plant", PLANTED)
def test_what_is_no_file_is_refused(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    folder = opened(tmp_path)
    plant(tmp_path / "cache" / "a")
    with pytest.raises(Foreign, match="it is not a file"):
        folder.read("a")


@contract("16.4")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o777])
def test_a_file_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    folder = opened(tmp_path)
    os.chmod(tmp_path / "cache" / "a", mode)
    with pytest.raises(Foreign, match="others may open it"):
        folder.read("a")


@contract("16.4")
def test_a_file_with_another_name_is_refused(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    os.link(tmp_path / "cache" / "a", tmp_path / "outside")
    with pytest.raises(Foreign, match="2 names"):
        folder.read("a")


@needs_root
@contract("16.4")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    os.chown(tmp_path / "cache" / "a", STRANGER, STRANGER)
    with pytest.raises(Foreign, match=f"belongs to the user with number {STRANGER}"):
        folder.read("a")


@contract("16.4")
@pytest.mark.parametrize("mode", [0o702, 0o707, 0o777, 0o722])
def test_others_must_not_write_to_a_folder_on_the_way(tmp_path: Path, mode: int) -> None:
    opened(tmp_path / "way" / "inner")
    os.chmod(tmp_path / "way", mode)
    with pytest.raises(ForeignWay, match="/way, which leads to it, can be written by others"):
        OwnFolder(str(tmp_path / "way" / "inner" / "cache"))
    # As /tmp is: what is there can be renamed by its owner alone.
    os.chmod(tmp_path / "way", mode | stat.S_ISVTX)
    OwnFolder(str(tmp_path / "way" / "inner" / "cache"))


@contract("16.4")
@pytest.mark.parametrize(
    ("members", "name", "is_private"),
    [([], "me", True), (["me"], "me", True), (["me", "you"], "me", False), ([], "us", False)],
)
def test_a_group_of_one_is_no_other(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    members: list[str],
    name: str,
    is_private: bool,
) -> None:
    monkeypatch.setattr(own_folder.pwd, "getpwuid", lambda _: SimpleNamespace(pw_name="me"))
    monkeypatch.setattr(
        own_folder.grp, "getgrgid", lambda _: SimpleNamespace(gr_name=name, gr_mem=members)
    )
    own_folder._is_private.cache_clear()
    (tmp_path / "way").mkdir()
    os.chmod(tmp_path / "way", 0o770)
    if is_private:
        OwnFolder(str(tmp_path / "way" / "cache"))
    else:
        with pytest.raises(ForeignWay, match="can be written by others"):
            OwnFolder(str(tmp_path / "way" / "cache"))
    own_folder._is_private.cache_clear()


@needs_root
@contract("16.4")
def test_a_folder_of_another_user_on_the_way_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "way" / "inner")
    os.chown(tmp_path / "way", STRANGER, STRANGER)
    with pytest.raises(ForeignWay, match=f"belongs to the user with number {STRANGER}"):
        OwnFolder(str(tmp_path / "way" / "inner" / "cache"))


@contract("16.4")
def test_links_on_the_way_are_followed_and_looked_at(tmp_path: Path) -> None:
    folder = opened(tmp_path / "way" / "inner")
    (tmp_path / "absolute").symlink_to(tmp_path / "way")
    (tmp_path / "relative").symlink_to("way/./inner/../inner/cache")
    for path in (tmp_path / "absolute" / "inner" / "cache", tmp_path / "relative"):
        assert OwnFolder(str(path)).read("a") == folder.read("a")
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="symbolic links"):
        OwnFolder(str(tmp_path / "round" / "cache"))
    # Where the link leads is looked at as well.
    os.chmod(tmp_path / "way", 0o777)
    with pytest.raises(ForeignWay, match="/way, which leads to it"):
        OwnFolder(str(tmp_path / "relative"))


@needs_root
@contract("16.4")
def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    (tmp_path / "link").symlink_to("cache")
    os.chown(tmp_path / "link", STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(ForeignWay, match="the link link that leads to it belongs"):
        OwnFolder(str(tmp_path / "link"))


@contract("16.4")
def test_renaming_the_folder_changes_nothing(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    (tmp_path / "cache").rename(tmp_path / "moved")
    other = opened(tmp_path)
    other.write("a", b"planted")
    assert folder.read("a")[0] == b"content"
    folder.write("b", b"new")
    assert os.listdir(tmp_path / "cache") == ["a"]
    assert sorted(os.listdir(tmp_path / "moved")) == ["a", "b"]


def test_a_descriptor_that_is_another_s_now_is_not_used(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    (tmp_path / "other").mkdir()
    number = folder._opened
    os.close(number)
    other = os.open(tmp_path / "other", os.O_RDONLY)
    os.dup2(other, number)
    try:
        assert not folder.is_there
        with pytest.raises(FileNotFoundError):
            folder.write("b", b"")
        assert os.listdir(tmp_path / "other") == []
        del folder
        os.fstat(number)
    finally:
        os.close(number)
        if other != number:
            os.close(other)


def test_a_folder_nobody_holds_is_closed(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        opened(tmp_path)
    assert len(os.listdir("/dev/fd")) <= before


def test_a_process_with_anothers_rights_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    with pytest.raises(ForeignWay, match="rights of another user"):
        OwnFolder(str(tmp_path / "cache"))
