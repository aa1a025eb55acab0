"""Atomic writing of files, and the cleanup of temporary files that killed writers left.

Data is written to a temporary file beside the final one, and renamed at the end. The writer holds a
lock on it, which the system drops when the process dies: a file that is not locked was abandoned,
and is removed when the next file is written under the name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from kiln.base.lazy import zlib

PathLike = str | os.PathLike[str]

_ENDING = ".tmp"
_LONGEST = 200
"""Longer names are replaced by a number, because names of temporary files are 38 bytes longer."""
_OPENED = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextlib.contextmanager
def replacing(path: PathLike, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Yield a file to write to, which is renamed to `path` when the context ends.

    It replaces a file of that name (a link itself, not its target) and gets the mode of that file.
    If the context ends with an error, nothing has changed. If `durable`, the data is on disk before
    the file is renamed.

    Raises: OSError.
    """
    folder, name = os.path.split(os.fspath(path))
    remove_abandoned(folder or ".", name)
    mode = _mode_of(path)
    beside, opened = _made(folder, name, mode)
    try:
        # Close first, because some file systems only then report a full disk; the other descriptor
        # holds the lock until the file is renamed.
        with open(os.dup(opened), "wb") as file:
            if mode is not None:
                # The umask may have removed some bits; not all systems have modes.
                with contextlib.suppress(OSError):
                    os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    finally:
        os.close(opened)
    if durable:
        sync_folder(folder or ".")


def write_atomically(path: PathLike, content: Iterable[Any]) -> None:
    """Write chunks of bytes to a file that appears under its name only once it is on disk.

    After an error the previous file is left, and nothing else; a kill may leave a file whose name
    ends in `.tmp`, which the next write of the same file removes.

    Raises: OSError.
    """
    with replacing(path, durable=True) as file:
        for piece in content:
            file.write(piece)


@contextlib.contextmanager
def folder_for(path: PathLike) -> Iterator[None]:
    """Make a folder with its parents; if the context ends with an error, remove them again.

    Raises: OSError.
    """
    missing, at = [], os.path.abspath(path)
    while not os.path.lexists(at):
        missing.append(at)
        at = os.path.dirname(at)
    try:
        os.makedirs(path, exist_ok=True)
        yield
    except BaseException:
        for each in missing:
            # Another writer may have files there.
            with contextlib.suppress(OSError):
                os.rmdir(each)
        raise


def write_text(path: PathLike, text: str) -> None:
    """Write a text to a file, whole or not at all.

    Raises: OSError.
    """
    with replacing(path) as file:
        file.write(text.encode())


def sync_folder(folder: PathLike) -> None:
    """Make renames durable; not all systems can open directories."""
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def remove_abandoned(folder: PathLike, name: str) -> None:
    """Remove the temporary files of a file that killed writers left."""
    ours = re.compile(re.escape(_stem(name)) + rf"[0-9a-f]{{32}}{re.escape(_ENDING)}")
    try:
        found = [each for each in os.listdir(folder) if ours.fullmatch(each)]
    except OSError:
        return
    for each in found:
        beside = os.path.join(folder, each)
        with contextlib.suppress(OSError):
            opened = os.open(beside, os.O_RDWR | _OPENED)
            try:
                if stat.S_ISREG(os.fstat(opened).st_mode):
                    # Without file locks, nothing is considered abandoned.
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(beside)
            finally:
                os.close(opened)


def _stem(name: str) -> str:
    encoded = os.fsencode(name)
    return f".{name if len(encoded) <= _LONGEST else f'{zlib.crc32(encoded):08x}'}."


def _made(folder: str, name: str, mode: int | None) -> tuple[str, int]:
    """Make a locked temporary file, which only those can open who could open the one before."""
    while True:
        beside = os.path.join(folder, f"{_stem(name)}{os.urandom(16).hex()}{_ENDING}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPENED
        opened = os.open(beside, flags, 0o666 if mode is None else mode)
        with contextlib.suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)
        if os.fstat(opened).st_nlink:
            return beside, opened
        # Another writer considered it abandoned before it was locked.
        os.close(opened)


def _mode_of(path: PathLike) -> int | None:
    """Return the mode of a file that is to be replaced, which may be closed to others."""
    with contextlib.suppress(OSError):
        before = os.lstat(path)
        if stat.S_ISREG(before.st_mode):
            return before.st_mode & 0o777
    return None
