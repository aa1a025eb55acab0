"""The files below a folder, with their dates and sizes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kiln import _runtime


def test_files_have_their_dates_and_sizes_in_order(tmp_path: Path) -> None:
    for name, text in (("b.py", "bb"), ("a/z.py", ""), ("a/deep/y.py", "y"), ("c.txt", "no")):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.utime(file, ns=(0, 1_500_000_000_123_456_789 + len(text)))
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "b.py").write_text("left out")
    found = _runtime.files_below(str(tmp_path), ".py")
    wanted = [
        (str(path), about.st_mtime_ns, about.st_ctime_ns, about.st_size)
        for path in (tmp_path / "a/deep/y.py", tmp_path / "a/z.py", tmp_path / "b.py")
        for about in (path.stat(),)
    ]
    assert found == wanted


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "é.py").write_text("x")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "there")
    (tmp_path / "here" / "nowhere").symlink_to(tmp_path / "missing")
    found = _runtime.files_below(str(tmp_path / "here"), ".py")
    assert [path for path, *_ in found] == [str(tmp_path / "here" / "link" / "é.py")]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    with open(folder + b"/\xfe.py", "wb"):
        pass
    for given in (folder, os.fsdecode(folder)):
        ((path, *_, size),) = _runtime.files_below(given, ".py")
        assert (os.fsencode(path), size) == (folder + b"/\xfe.py", 0)


def test_what_cannot_be_looked_at_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        _runtime.files_below(str(tmp_path / "missing"), ".py")
    (tmp_path / "lost.py").symlink_to(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        _runtime.files_below(str(tmp_path), ".py")
    with pytest.raises(TypeError):
        _runtime.files_below(None, ".py")  # type: ignore[arg-type]
