"""What kiln is: other code has another digest, and code that changed has none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kiln.execution import own_code
from kiln.execution.disk_cache import Folder


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a tree that is taken for kiln's."""
    for name in (*own_code.FOLDERS, "engines/native", "engines/xla"):
        (tmp_path / name).mkdir(parents=True)
        file = tmp_path / name / "a.py"
        file.write_text(name)
        os.utime(file, (1, 1))
    (tmp_path / "cache").mkdir(0o700)
    monkeypatch.setattr(own_code, "_ROOT", str(tmp_path))
    own_code._known.clear()
    return tmp_path


def digest(tree: Path, engine: str = "native") -> str | None:
    own_code._known.clear()
    try:
        return own_code.code_digest(Folder(str(tree / "cache")), engine)
    finally:
        own_code._known.clear()


def test_files_that_decide_about_code_are_known() -> None:
    own_code._known.clear()
    names = {os.path.relpath(path, own_code._ROOT) for path, *_ in own_code.files("native")}
    assert {
        "ops/reductions/reduction.py",
        "engines/native/llvm/nests.py",
        "ir/analysis/digest.py",
    } <= names
    assert any(name.startswith("_runtime.") for name in names)
    assert not any(name.startswith(("linen", "engines/xla")) for name in names)


def test_equal_trees_have_equal_digests(tree: Path) -> None:
    first = digest(tree)
    assert first is not None
    (note,) = (tree / "cache").iterdir()
    assert digest(tree) == first
    note.unlink()
    assert digest(tree) == first


@pytest.mark.parametrize("seconds", [1, 2])
def test_other_code_has_another_digest(tree: Path, seconds: int) -> None:
    first = digest(tree)
    file = tree / "ops" / "a.py"
    file.write_text("changed")
    os.utime(file, (seconds, seconds))
    assert digest(tree) not in (None, first)


def test_other_code_of_one_size_and_date(tree: Path) -> None:
    # Reproducible builds give all files of all versions one date.
    first = digest(tree)
    file = tree / "ops" / "a.py"
    file.write_text(file.read_text().upper())
    os.utime(file, (1, 1))
    assert digest(tree) not in (None, first)


def test_the_code_of_another_engine_does_not_count(tree: Path) -> None:
    before = {engine: digest(tree, engine) for engine in ("native", "xla")}
    file = tree / "engines" / "xla" / "a.py"
    file.write_text("changed")
    os.utime(file, (1, 1))
    assert digest(tree, "native") == before["native"]
    assert digest(tree, "xla") not in (None, before["xla"])


def test_a_date_alone_changes_nothing(tree: Path) -> None:
    first = digest(tree)
    os.utime(tree / "ops" / "a.py", (5, 5))
    assert digest(tree) == first


def test_a_damaged_note_is_written_again(tree: Path) -> None:
    first = digest(tree)
    (note,) = (tree / "cache").iterdir()
    for text in (b"", b"\xff\xfe", note.read_bytes()[:50]):
        note.write_bytes(text)
        assert digest(tree) == first


def test_code_that_changed_since_the_process_began_has_none(tree: Path) -> None:
    (tree / "ops" / "a.py").write_text("changed now")
    assert digest(tree) is None


def test_a_tree_that_is_not_there_has_none(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_code, "_ROOT", tree / "archive.zip")
    assert digest(tree) is None
