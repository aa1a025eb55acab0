"""A folder that only this user can write to, kept open: what is read there is what was written.

Every folder on the path is checked when it is opened, and every file when it is read. After that
files are named relative to the open folder, so that renaming folders or links has no effect.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import itertools
import os
import re
import stat
import time
import weakref
from collections.abc import Iterable, Iterator

from kiln.base.lazy import grp, pwd
from kiln.base.named_tuples import NamedTuple

_TEMPORARY = r"\.[0-9]+-[0-9]+-[0-9a-f]+\.tmp"
_OLD_S = 600.0
"""Without file locks, a temporary file of this age is considered abandoned."""
_MOST_LINKS = 40
_ROOT = 0
_TRIES = 5
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# A folder on the path may be searchable but not readable: it is traversed, not listed.
_PASSED = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe in place of a file must not block the process that opens it.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_FILE = (errno.ELOOP, errno.ENXIO, errno.EMLINK)
"""The errors of opening a link or a socket this way."""


class Foreign(Exception):
    """Another user could have written a file or a folder; the text is the evidence."""


class ForeignWay(Foreign):
    """Another user could replace this folder."""


class Listed(NamedTuple):
    """A file of the folder: its name, its bytes, when it was used last, in seconds since 1970."""

    name: str
    size: int
    used: float


class OwnFolder:
    """A folder of this user, not writable by others, created if necessary.

    Raises: Foreign if another user could write to it, OSError if it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._numbers = itertools.count()
        self._opened = _opened(path)
        self._identity = _identity(os.fstat(self._opened))
        weakref.finalize(self, _close, self._opened, self._identity).atexit = False

    @property
    def is_there(self) -> bool:
        """Whether the folder still exists under some name, and is open in this process."""
        with contextlib.suppress(OSError):
            about = os.fstat(self._opened)
            return _identity(about) == self._identity and about.st_nlink > 0
        return False

    def read(self, name: str) -> tuple[bytes, float]:
        """Return the bytes of a file, and when it was used last, in seconds since 1970.

        Raises: Foreign if another user could have written it, OSError if it cannot be opened.
        """
        try:
            opened = os.open(name, os.O_RDONLY | _FILE, dir_fd=self._held())
        except OSError as error:
            if error.errno in _NO_FILE:
                raise Foreign(f"{name}: it is not a file: {error.strerror}") from None
            raise
        try:
            about = os.fstat(opened)
            wrong = _why_foreign(about)
            if wrong is not None:
                raise Foreign(f"{name}: {wrong}")
            with open(opened, "rb", closefd=False) as file:
                return file.read(), about.st_mtime
        finally:
            os.close(opened)

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically, replacing one of the same name.

        Raises: OSError.
        """
        for again in range(_TRIES):
            held = self._held()
            with self._temporary(held) as (beside, opened):
                left = memoryview(data)
                while left:
                    left = left[os.write(opened, left) :]
                try:
                    os.replace(beside, name, src_dir_fd=held, dst_dir_fd=held)
                    return
                except FileNotFoundError:
                    # The folder was cleared on a system without file locks.
                    if again == _TRIES - 1 or not self.is_there:
                        raise

    def touch(self, name: str) -> None:
        """Record that a file was used now."""
        with contextlib.suppress(OSError):
            os.utime(name, dir_fd=self._held(), follow_symlinks=False)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        # Another process may have removed it first.
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._held())

    def files(self) -> list[Listed]:
        """Return all that is in the folder, the least recently used first."""
        return sorted(self._listed(), key=lambda each: (each.used, each.name))

    def remove_abandoned(self, files: Iterable[Listed]) -> int:
        """Remove temporary files whose writers were killed; return their bytes."""
        removed, now = 0, time.time()
        for each in files:
            if not re.fullmatch(_TEMPORARY, each.name):
                continue
            with contextlib.suppress(OSError):
                opened = os.open(each.name, os.O_RDWR | _FILE, dir_fd=self._held())
                try:
                    if not _is_locked(opened, is_old=now - each.used > _OLD_S):
                        self.remove(each.name)
                        removed += each.size
                finally:
                    os.close(opened)
        return removed

    def _held(self) -> int:
        # A program may close all file descriptors that it did not open, which are then reused.
        if not self.is_there:
            raise FileNotFoundError(errno.ENOENT, "the folder was removed", self.path)
        return self._opened

    def _listed(self) -> Iterator[Listed]:
        # With a separate descriptor: threads would share the read position.
        try:
            opened = os.open(".", _FOLDER, dir_fd=self._held())
        except FileNotFoundError:
            return
        try:
            with os.scandir(opened) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        about = entry.stat(follow_symlinks=False)
                        yield Listed(entry.name, about.st_size, about.st_mtime)
        finally:
            os.close(opened)

    @contextlib.contextmanager
    def _temporary(self, held: int) -> Iterator[tuple[str, int]]:
        """Yield a locked file to write to; it is removed afterwards unless it was renamed."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
        while True:
            beside = f".{os.getpid()}-{next(self._numbers)}-{time.time_ns():x}.tmp"
            opened = os.open(beside, flags, 0o600, dir_fd=held)
            try:
                with contextlib.suppress(OSError):
                    fcntl.flock(opened, fcntl.LOCK_EX)
                if not os.fstat(opened).st_nlink:
                    # It was considered abandoned before it was locked.
                    continue
                try:
                    yield beside, opened
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(beside, dir_fd=held)
                    raise
                return
            finally:
                os.close(opened)


def _is_locked(opened: int, is_old: bool) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return not is_old
    return False


def _opened(path: str) -> int:
    """Open the folder at an absolute path, and check every folder on the path."""
    if os.getuid() != os.geteuid():
        raise ForeignWay("this process has the rights of another user than the one who started it")
    at, links = os.open("/", _PASSED), 0
    names = path.split("/")[::-1]
    try:
        while names:
            name = names.pop()
            if name in ("", "."):
                continue
            _require_closed(at)
            try:
                about = os.stat(name, dir_fd=at, follow_symlinks=False)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=at)
                about = os.stat(name, dir_fd=at, follow_symlinks=False)
            if stat.S_ISLNK(about.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if about.st_uid not in (_ROOT, os.geteuid()):
                    raise ForeignWay(f"the link {name} that leads to it {_belongs(about)}")
                target = os.readlink(name, dir_fd=at)
                names += target.split("/")[::-1]
                name = "/" if target.startswith("/") else "."
            elif not stat.S_ISDIR(about.st_mode):
                if names:
                    # Service accounts may have `/dev/null` as their home.
                    raise NotADirectoryError(errno.ENOTDIR, f"{name} is not a folder", path)
                raise Foreign(f"{name} is not a folder")
            inner = os.open(name, _PASSED, dir_fd=at)
            os.close(at)
            at = inner
        wrong = _why_open(os.fstat(at))
        if wrong is not None:
            raise Foreign(wrong)
        return os.open(".", _FOLDER, dir_fd=at)
    finally:
        os.close(at)


def _why_open(about: os.stat_result) -> str | None:
    """Return why others could have written to a folder; None if they could not."""
    if about.st_uid != os.geteuid():
        return f"it {_belongs(about)}"
    if about.st_mode & 0o077:
        return f"others may enter it (its mode is {stat.S_IMODE(about.st_mode):o})"
    return None


def _require_closed(folder: int) -> None:
    """Check that no other user can replace a folder in this folder."""
    about = os.fstat(folder)
    wrong = None
    if about.st_uid not in (_ROOT, os.geteuid()):
        wrong = _belongs(about)
    elif about.st_mode & 0o022 and not about.st_mode & stat.S_ISVTX:
        # In a sticky folder, such as /tmp, one cannot rename what belongs to others.
        if about.st_mode & 0o002 or not _is_private(about.st_gid, os.geteuid()):
            wrong = f"can be written by others (its mode is {stat.S_IMODE(about.st_mode):o})"
    if wrong is not None:
        raise ForeignWay(f"the folder {_name_of(folder)}, which leads to it, {wrong}")


@functools.cache
def _is_private(group: int, user: int) -> bool:
    """Tell whether a group is a user private group, as many systems create."""
    try:
        mine, found = pwd.getpwuid(user).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == mine and set(found.gr_mem) <= {mine}


def _why_foreign(about: os.stat_result) -> str | None:
    """Return why another user could have written a file; None if it is as `write` leaves it."""
    if not stat.S_ISREG(about.st_mode):
        return "it is not a file"
    if about.st_uid != os.geteuid():
        return f"it {_belongs(about)}"
    if about.st_mode & 0o077:
        return f"others may open it (its mode is {stat.S_IMODE(about.st_mode):o})"
    if about.st_nlink > 1:
        return f"it has {about.st_nlink} names"
    return None


def _belongs(about: os.stat_result) -> str:
    return f"belongs to the user with number {about.st_uid}"


def _name_of(folder: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{folder}")
    except OSError:
        return "on its way"


def _identity(about: os.stat_result) -> tuple[int, int]:
    return about.st_dev, about.st_ino


def _close(opened: int, identity: tuple[int, int]) -> None:
    with contextlib.suppress(OSError):
        # Unless the descriptor was closed, and is now another file's.
        if _identity(os.fstat(opened)) == identity:
            os.close(opened)
