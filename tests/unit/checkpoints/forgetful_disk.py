"""A disk that forgets what was not synced, and does what it was not asked to wait for in any order.

What would be there after a crash is kept apart: of files what they held when they were last synced,
of folders the names that they had then. Right after a name was changed a crash may find this change
on disk, and none of those before it that nobody synced.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Names = dict[str, int]
Tree = dict[str, Any]
"""Of each name what is in the file, or the tree that is in the folder."""


class ForgetfulDisk:
    """What is on disk of a folder, for certain."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.crashes: list[Tree] = []
        """What would be left by crashes, each right after a name was changed."""
        self._names: dict[int, Names] = {}
        self._contents: dict[int, bytes] = {}
        self._folders: set[int] = {os.stat(root).st_ino}
        fsync, replace, unlink = os.fsync, os.replace, os.unlink

        def synced(file: int) -> None:
            fsync(file)
            self._sync(os.fstat(file))

        def renamed(of: Any, to: Any, **options: Any) -> None:
            moved, before = os.lstat(of).st_ino, self._number(to)
            replace(of, to, **options)
            self._forget(before)
            self._crash(Path(of), Path(to), moved)

        def removed(path: Any, **options: Any) -> None:
            number = self._number(path) if not options else None
            unlink(path, **options)
            self._forget(number)
            if not options:
                self._crash(Path(path), None, 0)

        patched: dict[str, Callable[..., None]] = {"fsync": synced, "unlink": removed}
        for name, made in {**patched, "replace": renamed, "rename": renamed}.items():
            patch.setattr(os, name, made)

    def left(self) -> Tree:
        """Return what a crash now would leave, if it did nothing that was not synced."""
        return self._tree(os.stat(self.root).st_ino, {})

    def _sync(self, about: os.stat_result) -> None:
        path = next((p for p in (self.root, *self.root.rglob("*")) if _is(p, about)), None)
        if path is None:
            return
        if stat.S_ISREG(about.st_mode):
            self._contents[about.st_ino] = path.read_bytes()
            return
        with os.scandir(path) as found:
            entries = list(found)
        self._folders |= {e.inode() for e in entries if e.is_dir(follow_symlinks=False)}
        self._names[about.st_ino] = {e.name: e.inode() for e in entries}

    def _crash(self, of: Path, to: Path | None, number: int) -> None:
        if self.root not in of.parents:
            return
        changed: dict[int, Names] = {}
        for path, is_there in ((of, False), (to, True)):
            if path is not None:
                folder = os.stat(path.parent).st_ino
                names = changed.setdefault(folder, dict(self._names.get(folder, {})))
                names.pop(path.name, None)
                if is_there:
                    names[path.name] = number
        if to is not None and to.is_dir():
            self._folders.add(number)
        self.crashes.append(self._tree(os.stat(self.root).st_ino, changed))

    def _tree(self, folder: int, changed: dict[int, Names]) -> Tree:
        names = changed.get(folder, self._names.get(folder, {}))
        return {
            name: self._tree(number, changed)
            if number in self._folders
            else self._contents.get(number, b"")
            for name, number in names.items()
        }

    def _number(self, path: Any) -> int | None:
        return os.lstat(path).st_ino if os.path.lexists(path) else None

    def _forget(self, number: int | None) -> None:
        # Another file may get the number.
        if number is not None:
            self._contents.pop(number, None)
            self._names.pop(number, None)
            self._folders.discard(number)


def _is(path: Path, about: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(path), about)
    except FileNotFoundError:
        return False


def write_tree(folder: Path, tree: Tree) -> Path:
    """Make what a crash left as a folder, and return it."""
    folder.mkdir()
    for name, inside in tree.items():
        if isinstance(inside, bytes):
            (folder / name).write_bytes(inside)
        else:
            write_tree(folder / name, inside)
    return folder
