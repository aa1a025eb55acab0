"""A folder holds what a reader takes in at a glance."""

from __future__ import annotations

from pathlib import Path

from tests.structure.source_tree import KILN, rules, write_tree

MOST_ENTRIES = 25
BUILT = {".so", ".pyd"}


def crowded(root: Path, allowed: list[str]) -> list[str]:
    """Return folders over the limit, and exceptions nobody needs any more.

    A folder within counts as one entry, whatever it holds; what building leaves does not count.
    """
    counts = {
        folder.relative_to(root).as_posix(): sum(map(_is_written, folder.iterdir()))
        for folder in [root, *root.rglob("*")]
        if folder.is_dir() and _is_written(folder)
    }
    over = {folder: count for folder, count in sorted(counts.items()) if count > MOST_ENTRIES}
    found = [f"{name} has {count} entries" for name, count in over.items() if name not in allowed]
    return found + [f"{name} needs no exception" for name in allowed if name not in over]


def _is_written(path: Path) -> bool:
    return not path.name.startswith((".", "__pycache__")) and path.suffix not in BUILT


def test_folders_stay_small() -> None:
    # What gets rooms leaves the list in pyproject.toml; nothing is added to it.
    assert crowded(KILN, rules("folders")["crowded"]) == []


def test_a_crowded_folder_is_found(tmp_path: Path) -> None:
    # The tree also gets an `ops/__init__.py`.
    full = {f"ops/a{n}.py": "" for n in range(MOST_ENTRIES - 2)}
    root = write_tree(tmp_path, {**full, "ops/room/a.py": "", "ops/room/b.py": ""})
    built = {"ops/__pycache__/a.pyc": "", "ops/fast.so": "", "ops/.lock": ""}
    assert crowded(write_tree(root, built), []) == []
    assert crowded(root, ["ops"]) == ["ops needs no exception"]
    write_tree(root, {"ops/README.md": ""})
    assert crowded(root, []) == [f"ops has {MOST_ENTRIES + 1} entries"]
    assert crowded(root, ["ops", "gone"]) == ["gone needs no exception"]
