"""The folder of compiled programs: atomic entries, bounded in bytes.

An entry is a file that is written under a temporary name and renamed: readers and other writers see
all of it or nothing. It begins with a checksum of the rest, because of power failures and disk
errors. No process waits for another: two that write the same entry write the same bytes.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Iterable

from kiln.base.lazy import blake2
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options
from kiln.base.process.forks import in_child, new_lock
from kiln.base.process.memory import MB
from kiln.execution.own_folder import Foreign, ForeignWay, Listed, OwnFolder

_MAGIC = b"kiln program 1\n"
_SUFFIX = ".program"
_NOTE = ".note"
_CHECKSUM = 32
_PART = 16
"""The folder is scanned again when this process has added this fraction of the limit."""
_STAMP_S = 60.0
"""A timestamp of the last use is at most this old."""
_LINES = 5
_MOST_FOLDERS = 8
"""How many of the folders chosen in this process are kept open."""


class Entry(NamedTuple):
    """A compiled program: its bytes, and its description for users."""

    engine: str
    reason: str
    program: str
    seconds: float
    code: bytes


class Damaged(Exception):
    """A file does not hold what was written to it."""


class Counts:
    """What the cache did in this process."""

    def __init__(self) -> None:
        self.hits = self.misses = self.stored = self.rejected = self.evicted = 0


counts = Counts()
_warned: set[str] = set()


def warn_once(about: str, text: str) -> None:
    """Warn, once per process and reason."""
    if about not in _warned:
        _warned.add(about)
        warnings.warn(text, RuntimeWarning, stacklevel=2)


class Folder:
    """A folder of compiled programs, owned by this user and not writable by others.

    Raises: Foreign if others could write to it, OSError if it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._own = OwnFolder(path)
        self._lock = new_lock()
        self._unseen: int | None = None
        """Bytes that this process added since it scanned the folder; None at first."""
        self._is_refused = False

    def get(self, name: str) -> Entry | None:
        """Return an entry, and record its use; None if there is no intact one."""
        found = self._bytes(name + _SUFFIX)
        if found is None:
            return None
        data, used = found
        try:
            entry = read(data, name)
        except Damaged as why:
            self.reject(name, str(why))
            return None
        if abs(time.time() - used) > _STAMP_S:
            self._own.touch(name + _SUFFIX)
        return entry

    def reject(self, name: str, why: str) -> None:
        """Remove an unusable entry; the program is recompiled."""
        counts.rejected += 1
        self.remove(name)
        warn_once(
            "damaged",
            f"a compiled program of the cache {self.path} was left out: {why}. It is compiled "
            "again; `python -m kiln cache verify` looks for others",
        )

    def put(self, name: str, entry: Entry) -> bool:
        """Write an entry; tell whether it exists afterwards."""
        data = written(name, entry)
        if len(data) > _limit() // 4 or not self._write(name + _SUFFIX, data):
            return False
        counts.stored += 1
        self._account(len(data))
        return True

    def note(self, name: str) -> bytes:
        """Return a note stored beside the entries; b"" if there is none."""
        found = self._bytes(name + _NOTE)
        return b"" if found is None else found[0]

    def put_note(self, name: str, text: bytes) -> None:
        """Write a note."""
        self._write(name + _NOTE, text)

    def entries(self) -> list[Listed]:
        """Return the entries, the least recently used first."""
        return _entries(self._own.files())

    def clear(self) -> int:
        """Remove all entries, and temporary files of killed writers; return the bytes freed."""
        files = self._own.files()
        own = [each for each in files if each.name.endswith((_SUFFIX, _NOTE))]
        for each in own:
            self._own.remove(each.name)
        return sum(each.size for each in own) + self._own.remove_abandoned(files)

    def check(self, name: str) -> Entry:
        """Return an entry from disk.

        Raises: Damaged if it is corrupted; OSError if it is gone.
        """
        try:
            data, _ = self._own.read(name + _SUFFIX)
        except Foreign as why:
            raise Damaged(str(why)) from None
        return read(data, name)

    def remove(self, name: str) -> None:
        """Remove an entry, if it is there."""
        self._own.remove(name + _SUFFIX)

    def shrink(self, limit: int) -> None:
        """Remove the least recently used entries until the rest is within a limit of bytes."""
        files = self._own.files()
        self._own.remove_abandoned(files)
        entries = _entries(files)
        total = sum(each.size for each in entries)
        for each in entries:
            if total <= limit:
                return
            self.remove(each.name)
            total -= each.size
            counts.evicted += 1

    def _bytes(self, name: str) -> tuple[bytes, float] | None:
        """Return the bytes of a file and its date; None if there is none to be used."""
        if self._is_refused:
            return None
        try:
            return self._own.read(name)
        except Foreign as why:
            # Another user who wrote this could have written other files, or moved this user's files
            # here.
            self._is_refused = True
            _folders[self.path] = None
            counts.rejected += 1
            warn_once("trust", _refusal(self.path, why))
        except OSError:
            pass
        return None

    def _write(self, name: str, data: bytes) -> bool:
        if self._is_refused:
            return False
        try:
            self._own.write(name, data)
        except OSError as error:
            if not self._own.is_there:
                # The next program is stored in a new one.
                _folders.pop(self.path, None)
            else:
                # A full disk may have space again for the next one.
                warn_once("full", f"a compiled program is not kept in {self.path}: {error}")
            return False
        return True

    def _account(self, size: int) -> None:
        limit = _limit()
        with self._lock:
            self._unseen = limit if self._unseen is None else self._unseen + size
            if self._unseen < limit // _PART:
                return
            self._unseen = 0
        with contextlib.suppress(OSError):
            self.shrink(limit)


def _entries(files: Iterable[Listed]) -> list[Listed]:
    return [
        each._replace(name=each.name.removesuffix(_SUFFIX))
        for each in files
        if each.name.endswith(_SUFFIX)
    ]


def _limit() -> int:
    return options().disk_cache_mb * MB


def _checksum(data: bytes) -> bytes:
    found: bytes = blake2.blake2b(data, digest_size=_CHECKSUM).digest()
    return found


def written(name: str, entry: Entry) -> bytes:
    """Return an entry as bytes, with its name and a checksum."""
    lines = (name, entry.engine, entry.reason, entry.program, f"{entry.seconds:.6f}")
    head = "".join(line.replace("\n", " ") + "\n" for line in lines)
    rest = head.encode(errors="replace") + entry.code
    return _MAGIC + _checksum(rest) + rest


def read(data: bytes, name: str) -> Entry:
    """Return the entry of a name from bytes.

    Raises: Damaged.
    """
    start = len(_MAGIC) + _CHECKSUM
    if not data.startswith(_MAGIC):
        raise Damaged("the file was not written by kiln, or is empty")
    rest = data[start:]
    if data[len(_MAGIC) : start] != _checksum(rest):
        raise Damaged("the file is damaged: its checksum is another one")
    *lines, code = rest.split(b"\n", _LINES)
    own, engine, reason, program, seconds = [line.decode() for line in lines]
    if own != name:
        raise Damaged("the file is that of another program")
    return Entry(engine, reason, program, float(seconds), code)


def chosen_path() -> str | None:
    """Return the path of the cache; None if it is off, or there is no folder for it."""
    if not options().disk_cache:
        return None
    chosen = options().cache_dir
    if chosen != "auto":
        return os.path.abspath(os.path.expanduser(chosen)) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        # The XDG standard says that relative paths are ignored.
        base = os.path.expanduser("~/.cache")
    return os.path.join(base, "kiln") if os.path.isabs(base) else None


_folders: dict[str, Folder | None] = {}


@in_child
def _forget() -> None:
    _folders.clear()


def folder() -> Folder | None:
    """Return the folder of the cache, created if necessary; None if there is none."""
    path = chosen_path()
    if path is None:
        return None
    try:
        return _folders[path]
    except KeyError:
        if len(_folders) >= _MOST_FOLDERS:
            _folders.pop(next(iter(_folders)), None)
        found = _folders[path] = _opened(path)
        return found


def _opened(path: str) -> Folder | None:
    try:
        return Folder(path)
    except Foreign as why:
        warn_once("trust", _refusal(path, why))
    except OSError as error:
        if options().cache_dir != "auto":
            warn_once("none", f"compiled programs are not kept: the folder of the cache: {error}")
    return None


def _refusal(path: str, why: Foreign) -> str:
    remedy = f"remove it, and kiln makes another: `rm -r {path}`"
    if isinstance(why, ForeignWay):
        remedy = (
            "set KILN_CACHE_DIR to a folder to which only folders of yours and the system's lead"
        )
    return (
        f"compiled programs are not kept in {path}: {why}. Anyone who writes there could run code "
        f"as you: {remedy}"
    )
