"""Checks of the headers of NumPy's files, before NumPy reads them."""

from __future__ import annotations

from typing import IO

from kiln.base.lazy import zipfile

_MAGIC = b"\x93NUMPY"
_ZIP = b"PK\x03\x04"
_LONGEST_HEADER = 1 << 16
"""The most bytes of a header; NumPy refuses longer ones unread."""


def require_harmless(described: str) -> None:
    """Check a description of a dtype that comes from a file, before NumPy reads it.

    Raises: ValueError for one that may crash NumPy: it divides units of time by the number after a
        slash, even if that is 0.
    """
    for mark in ("/", "\\"):
        if mark in described:
            raise ValueError(f"the description of a dtype has a {mark!r}: {described!r:.80}")


def require_harmless_array(file: IO[bytes]) -> None:
    """Check the header of the array that begins here in a file; NumPy rejects malformed ones.

    Raises: ValueError, as `require_harmless`.
    """
    begin = file.read(8)
    if begin.startswith(_MAGIC):
        size = int.from_bytes(file.read(2 if begin[6:7] == b"\1" else 4), "little")
        require_harmless(file.read(min(size, _LONGEST_HEADER)).decode("latin1"))


def require_harmless_file(file: IO[bytes]) -> None:
    """Check all headers in a `.npy` or `.npz` file from its current position, and return there.

    Raises: ValueError, as `require_harmless`, and for damaged archives.
    """
    start = file.tell()
    try:
        if file.read(len(_ZIP)) != _ZIP:
            file.seek(start)
            require_harmless_array(file)
            return
        file.seek(start)
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                with archive.open(name) as member:
                    require_harmless_array(member)
    finally:
        file.seek(start)
