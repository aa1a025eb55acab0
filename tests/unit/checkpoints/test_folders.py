from __future__ import annotations

from pathlib import Path

import pytest

from kiln.checkpoints import folders
from kiln.checkpoints.folders import locked, new_folder, remove_abandoned, remove_folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_has_its_name_when_it_is_complete(tmp_path: Path) -> None:
    with new_folder(tmp_path / "a") as folder:
        (folder / "f").touch()
        assert names(tmp_path) == [folder.name]
        # Another writer of the same name does not take it for abandoned.
        remove_abandoned(tmp_path, "a")
        assert names(folder) == ["f"]
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == ["f"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "a") as folder:
        (folder / "f").touch()
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_a_folder_with_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "mine").touch()
    with pytest.raises(OSError), new_folder(tmp_path / "a"):
        pass
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == ["mine"]


def test_only_what_was_abandoned_is_removed(tmp_path: Path) -> None:
    one, two = "1" * 32, "2" * 32
    for name in (f".a.{one}", f".a.{one}.tmp", f".a.{two}.tmp", f".b.{one}.tmp", ".a.mine.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").touch()
    with locked(tmp_path / f".a.{two}.tmp"):
        remove_abandoned(tmp_path, "a")
    left = [f".a.{one}", f".a.{two}.tmp", ".a.mine.tmp", f".b.{one}.tmp"]
    assert names(tmp_path) == sorted(left)
    remove_abandoned(tmp_path, "[ab]")
    assert names(tmp_path) == sorted([f".a.{one}", ".a.mine.tmp"])
    remove_abandoned(tmp_path / "none", "a")


def test_removing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").touch()
    remove_folder(tmp_path / "a", "index.json")
    assert names(tmp_path) == []


def test_a_folder_taken_for_abandoned_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = folders._made_beside
    taken: list[Path] = []

    def take_first(final: Path) -> Path:
        found = made(final)
        if not taken:
            remove_abandoned(final.parent, final.name)
            assert not found.exists()
        taken.append(found)
        return found

    monkeypatch.setattr(folders, "_made_beside", take_first)
    with new_folder(tmp_path / "a") as folder:
        assert folder == taken[1]
    assert names(tmp_path) == ["a"]
