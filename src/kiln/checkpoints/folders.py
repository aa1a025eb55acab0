"""Folders that are renamed into place once complete, and the removal of those of killed writers.

A folder is written next to its final place and renamed. The writer holds a lock on it, which the
system releases when the process dies: a folder that is not locked was abandoned.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from kiln.base.files.writing import folder_for, sync_folder

_SUFFIX = ".tmp"


@contextlib.contextmanager
def new_folder(final: Path) -> Iterator[Path]:
    """Yield a new folder to write to; it is renamed to `final` unless the context raises.

    Raises: OSError if a folder with files has that name by then.
    """
    missing = _missing(final.parent)
    with contextlib.ExitStack() as stack:
        stack.enter_context(folder_for(final.parent))
        beside = _made_beside(final)
        while not _taken(beside, stack):
            # Another writer removed it as abandoned before it was locked.
            beside = _made_beside(final)
        try:
            yield beside
            beside.rename(final)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
    # After a crash of the machine the parent folders must exist, too.
    for folder in (final, *missing):
        sync_folder(folder.parent)


def _missing(folder: Path) -> list[Path]:
    """Return those of a folder and its parents that do not exist."""
    return [folder, *_missing(folder.parent)] if not folder.exists() else []


def _beside(final: Path) -> Path:
    return final.with_name(f".{final.name}.{uuid.uuid4().hex}{_SUFFIX}")


def _made_beside(final: Path) -> Path:
    made = _beside(final)
    made.mkdir()
    return made


def _taken(folder: Path, stack: contextlib.ExitStack) -> bool:
    """Lock a folder until the stack is closed; return whether it still exists."""
    with contextlib.suppress(FileNotFoundError):
        stack.enter_context(locked(folder))
        return folder.exists()
    return False


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; block while another writer holds it."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        # Some file systems have no locks. There, no folder is ever considered abandoned.
        with contextlib.suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def remove_abandoned(parent: Path, name: str) -> None:
    """Remove folders in `parent` that killed writers left, if they match a regular expression."""
    ours = re.compile(rf"\.(?:{name})\.[0-9a-f]{{32}}{re.escape(_SUFFIX)}")
    for found in [path for path in _listed(parent) if ours.fullmatch(path.name)]:
        with contextlib.suppress(OSError):
            opened = os.open(found, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(found, ignore_errors=True)
            finally:
                os.close(opened)


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def remove_folder(folder: Path, first: str) -> None:
    """Remove a folder, which never exists under its name in part.

    If a full disk prevents renaming, the file `first`, without which it is invalid, is removed
    first.
    """
    beside = _beside(folder)
    try:
        folder.rename(beside)
    except FileNotFoundError:
        raise
    except OSError:
        (folder / first).unlink()
        beside = folder
    shutil.rmtree(beside, ignore_errors=True)
