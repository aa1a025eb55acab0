"""The folder of compiled programs: entries that are whole or not there, bounded in bytes.

An entry is a file that is written beside its place and renamed: readers and other writers see all
of it or nothing. It begins with a checksum of the rest, as power may fail and disks may lie.
Nothing here waits for another process: two that write one entry write the same.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import time
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from kiln.base.config import options
from kiln.base.forks import in_child, new_lock
from kiln.base.lazy import blake2
from kiln.base.memory import MB

_MAGIC = b"kiln program 1\n"
_SUFFIX = ".program"
_TEMPORARY = ".tmp"
_CHECKSUM = 32
_OLD_S = 600.0
"""A temporary file of this age has lost its writer."""
_PART = 16
"""The folder is looked through again when this process has added this part of the limit."""
_STAMP_S = 60.0
"""A stamp of the last use is at most this old."""
_LINES = 5


class Entry(NamedTuple):
    """A compiled program: its bytes, and what tells users about it."""

    engine: str
    reason: str
    program: str
    seconds: float
    code: bytes


class Listed(NamedTuple):
    """A file of the folder: its name, its bytes, when it was used last, in seconds since 1970."""

    name: str
    size: int
    used: float


class Damaged(Exception):
    """A file is not what was written there."""


class Counts:
    """What the cache did in this process."""

    def __init__(self) -> None:
        self.hits = self.misses = self.stored = self.rejected = self.evicted = 0


counts = Counts()
_warned = False


def warn_once(text: str) -> None:
    """Warn, unless this process was warned about its cache before."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(text, RuntimeWarning, stacklevel=2)


class Folder:
    """A folder of compiled programs, owned by this user and closed to others."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._numbers = itertools.count()
        self._lock = new_lock()
        self._unseen: int | None = None
        """Bytes that this process added since it looked through the folder; None at first."""
        self._full = False

    def get(self, name: str) -> Entry | None:
        """Return an entry, and note that it was used; None if there is none that is whole."""
        path = self._path(name)
        try:
            with open(path, "rb") as file:
                data = file.read()
                used = os.fstat(file.fileno()).st_mtime
        except OSError:
            return None
        try:
            found = _read(data, name)
        except Damaged as why:
            self.reject(name, str(why))
            return None
        if abs(time.time() - used) > _STAMP_S:
            with contextlib.suppress(OSError):
                os.utime(path)
        return found

    def reject(self, name: str, why: str) -> None:
        """Remove an entry that cannot be used; the program is compiled again."""
        counts.rejected += 1
        with contextlib.suppress(OSError):
            os.unlink(self._path(name))
        warn_once(
            f"a compiled program of the cache {self.path} was left out: {why}. It is compiled "
            "again; `python -m kiln cache verify` looks for others"
        )

    def put(self, name: str, entry: Entry) -> bool:
        """Write an entry; tell whether it is there."""
        data = _written(name, entry)
        if self._full or len(data) > _limit() // 4:
            return False
        temporary = os.path.join(
            self.path, f".{os.getpid()}-{next(self._numbers)}-{time.time_ns():x}{_TEMPORARY}"
        )
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            try:
                with open(os.open(temporary, flags, 0o600), "wb") as file:
                    file.write(data)
                os.replace(temporary, self._path(name))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError as error:
            # The disk is full, or the folder was removed: from now on this process only reads.
            self._full = True
            warn_once(f"compiled programs are not kept in {self.path}: {error}")
            return False
        counts.stored += 1
        self._account(len(data))
        return True

    def entries(self) -> list[Listed]:
        """Return the entries, the least recently used first."""
        found = [each for each in self._files() if each.name.endswith(_SUFFIX)]
        return [each._replace(name=each.name[: -len(_SUFFIX)]) for each in found]

    def clear(self) -> int:
        """Remove all entries, and what killed writers left; return how many bytes that were."""
        files = self._files()
        for each in files:
            self._remove(each.name)
        return sum(each.size for each in files)

    def check(self, name: str) -> Entry:
        """Return an entry as it is on disk.

        Raises: Damaged if it is not what was written; OSError if it is gone.
        """
        with open(self._path(name), "rb") as file:
            return _read(file.read(), name)

    def remove(self, name: str) -> None:
        """Remove an entry, if it is there."""
        self._remove(name + _SUFFIX)

    def shrink(self, limit: int) -> None:
        """Remove the least recently used entries until the rest has no more bytes than a limit."""
        files, now = self._files(), time.time()
        total = sum(each.size for each in files)
        for each in files:
            is_lost = each.name.endswith(_TEMPORARY) and now - each.used > _OLD_S
            is_entry = each.name.endswith(_SUFFIX)
            if is_lost or (is_entry and total > limit):
                self._remove(each.name)
                total -= each.size
                counts.evicted += is_entry

    def _account(self, size: int) -> None:
        limit = _limit()
        with self._lock:
            self._unseen = limit if self._unseen is None else self._unseen + size
            if self._unseen < limit // _PART:
                return
            self._unseen = 0
        with contextlib.suppress(OSError):
            self.shrink(limit)

    def _files(self) -> list[Listed]:
        found = []
        for entry in self._scan():
            if entry.name.endswith((_SUFFIX, _TEMPORARY)):
                with contextlib.suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    found.append(Listed(entry.name, about.st_size, about.st_mtime))
        return sorted(found, key=lambda each: (each.used, each.name))

    def _scan(self) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self.path) as entries:
                yield from entries
        except FileNotFoundError:
            return

    def _remove(self, name: str) -> None:
        # Another process may have been faster.
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.path, name))

    def _path(self, name: str) -> str:
        return os.path.join(self.path, name + _SUFFIX)


def _limit() -> int:
    return options().disk_cache_mb * MB


def _checksum(data: bytes) -> bytes:
    found: bytes = blake2.blake2b(data, digest_size=_CHECKSUM).digest()
    return found


def _written(name: str, entry: Entry) -> bytes:
    lines = (name, entry.engine, entry.reason, entry.program, f"{entry.seconds:.6f}")
    head = "".join(line.replace("\n", " ") + "\n" for line in lines)
    rest = head.encode(errors="replace") + entry.code
    return _MAGIC + _checksum(rest) + rest


def _read(data: bytes, name: str) -> Entry:
    start = len(_MAGIC) + _CHECKSUM
    if not data.startswith(_MAGIC):
        raise Damaged("the file is none of kiln's, or is empty")
    rest = data[start:]
    if data[len(_MAGIC) : start] != _checksum(rest):
        raise Damaged("the file is damaged: its checksum is another one")
    *lines, code = rest.split(b"\n", _LINES)
    own, engine, reason, program, seconds = [line.decode() for line in lines]
    if own != name:
        raise Damaged("the file is that of another program")
    return Entry(engine, reason, program, float(seconds), code)


def chosen_path() -> str | None:
    """Return where the cache lies; None if it is switched off, or there is no place for it."""
    chosen = options().cache_dir
    if chosen != "auto":
        return os.path.abspath(os.path.expanduser(chosen)) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        # The standard has it that relative paths are ignored.
        base = os.path.expanduser("~/.cache")
    return os.path.join(base, "kiln") if os.path.isabs(base) else None


_folders: dict[str, Folder | None] = {}


@in_child
def _forget() -> None:
    _folders.clear()


def folder() -> Folder | None:
    """Return the folder of the cache, made if need be; None if there is none."""
    path = chosen_path()
    if path is None:
        return None
    try:
        return _folders[path]
    except KeyError:
        found = _folders[path] = _opened(path)
        return found


def _opened(path: str) -> Folder | None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        about = os.stat(path)
    except OSError as error:
        if options().cache_dir != "auto":
            warn_once(f"compiled programs are not kept: the folder of the cache: {error}")
        return None
    wrong = _why_unsafe(about)
    if wrong is not None:
        warn_once(
            f"compiled programs are not kept in {path}: {wrong}. Whoever writes there could run "
            "code as you: `chmod 700` it, or set KILN_CACHE_DIR to a folder of your own"
        )
        return None
    return Folder(path)


def _why_unsafe(about: os.stat_result) -> str | None:
    if not stat.S_ISDIR(about.st_mode):
        return "it is no folder"
    if hasattr(os, "getuid") and about.st_uid != os.getuid():
        return f"it belongs to the user with number {about.st_uid}"
    if about.st_mode & 0o077:
        return f"others may enter it (its mode is {stat.S_IMODE(about.st_mode):o})"
    return None
