"""Folders that appear under their names only when they are complete, and what killed writers leave.

A folder is written beside its final name and renamed. While a process writes, it holds a lock on
the folder, which the system drops when the process dies: what is not locked was abandoned.
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
    """Give a folder to write to, which gets its name when the context ends without an error.

    Raises: OSError if there is a folder with files under that name then.
    """
    missing = _missing(final.parent)
    with contextlib.ExitStack() as stack:
        stack.enter_context(folder_for(final.parent))
        beside = _made_beside(final)
        while not _taken(beside, stack):
            # Another writer took it for abandoned before it was locked.
            beside = _made_beside(final)
        try:
            yield beside
            beside.rename(final)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
    # A crash of the machine must lose none of the folders that it is in.
    for folder in (final, *missing):
        sync_folder(folder.parent)


def _missing(folder: Path) -> list[Path]:
    """Return a folder and those that it is in, as far as they are not there."""
    return [folder, *_missing(folder.parent)] if not folder.exists() else []


def _beside(final: Path) -> Path:
    return final.with_name(f".{final.name}.{uuid.uuid4().hex}{_SUFFIX}")


def _made_beside(final: Path) -> Path:
    made = _beside(final)
    made.mkdir()
    return made


def _taken(folder: Path, stack: contextlib.ExitStack) -> bool:
    """Lock a folder until the stack is left; tell whether it is still there."""
    with contextlib.suppress(FileNotFoundError):
        stack.enter_context(locked(folder))
        return folder.exists()
    return False


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; wait while another writer does."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        # Some file systems have no locks. There a folder is never taken for abandoned either.
        with contextlib.suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def remove_abandoned(parent: Path, name: str) -> None:
    """Remove what killed writers left of folders in `parent` whose names match an expression."""
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
    """Remove a folder so that at no moment a part of it is there under its name.

    If a full disk has no room for another name, the file `first`, which makes it whole, goes first.
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
