"""A digest of kiln's own code, so that programs on disk belong to the same code.

Reading three hundred files takes tens of milliseconds, so their digest is stored on disk with their
dates and sizes, and files are read again only if one of these has changed.
"""

from __future__ import annotations

import marshal
import os
import time

from kiln import _runtime
from kiln.base.lazy import blake2
from kiln.execution.disk_cache import Folder

_ROOT = os.path.dirname(os.path.dirname(__file__))
FOLDERS = ("base", "control", "core", "execution", "ir", "ops", "transforms")
"""The packages that determine a jaxpr's code, besides its engine; higher ones only produce
jaxprs."""
_LOADED = time.time_ns()
_NAME = "code"
_WITHOUT_REFERENCES = 2
"""The last format of `marshal` in which equal values are equal bytes."""

Stamp = tuple[str, int, int, int]
"""A path, the times of the last write and the last change, and the size."""


def files(engine: str) -> list[Stamp]:
    """Return the files of kiln that determine an engine's code.

    The second date is the system's: the first one is the same for all files of all versions where
    builds are reproducible.
    """
    found: list[Stamp] = []
    for name in (*FOLDERS, os.path.join("engines", engine)):
        found += _runtime.files_below(os.path.join(_ROOT, name), ".py")
    extension = os.stat(_runtime.__file__)
    dates = extension.st_mtime_ns, extension.st_ctime_ns
    found.append((_runtime.__file__, *dates, extension.st_size))
    return found


def code_digest(folder: Folder | None, engine: str) -> str | None:
    """Return a digest of kiln's code with one engine, stored in a folder of the cache, if any.

    None if a file was changed after this process started: the running code may be older.
    """
    if engine not in _known:
        _known[engine] = _noted(folder, engine)
    return _known[engine]


_known: dict[str, str | None] = {}


def _noted(folder: Folder | None, engine: str) -> str | None:
    try:
        known = files(engine)
    except OSError:
        # Kiln is in an archive, or is being replaced.
        return None
    if max(date for _, date, *_ in known) > _LOADED:
        return None
    paths = [path for path, *_ in known]
    if folder is None:
        return _digest(paths)
    stamp = blake2.blake2b(marshal.dumps(known, _WITHOUT_REFERENCES), digest_size=16).hexdigest()
    # Each installation, and each version of Python in it, has its own note.
    where = blake2.blake2b(_runtime.__file__.encode(), digest_size=8).hexdigest()
    note = f"{_NAME}-{engine}-{where}"
    before, _, noted = folder.note(note).decode(errors="replace").strip().partition(" ")
    if before == stamp and len(noted) == len(stamp):
        return noted
    digest = _digest(paths)
    if digest is not None:
        folder.put_note(note, f"{stamp} {digest}\n".encode())
    return digest


def _digest(paths: list[str]) -> str | None:
    found = blake2.blake2b(digest_size=16)
    try:
        for path in paths:
            # The same wheel is installed in many environments.
            found.update(path.removeprefix(_ROOT).encode() + b"\0")
            with open(path, "rb", buffering=0) as file:
                found.update(file.read())
    except OSError:
        return None
    return str(found.hexdigest())
