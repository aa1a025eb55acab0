"""KILN_PERF: symbols of compiled code for Linux perf, in /tmp/perf-PID.map.

`perf report` looks there for code that is in no file. The functions of an object file and their
sizes are read from its symbol table.
"""

from __future__ import annotations

import os
import stat
import struct
import warnings
from collections.abc import Iterator, Sequence

from kiln.base.named_tuples import NamedTuple

FOLDER = "/tmp"
"""Where perf looks."""
_SYMBOL_TABLE, _FUNCTION = 2, 2
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Symbol(NamedTuple):
    """A function in an object file: its section, and its offset there."""

    name: str
    section: int
    offset: int
    size: int


class Function(NamedTuple):
    """A function in memory."""

    name: str
    address: int
    size: int


def functions(image: bytes) -> Iterator[Symbol]:
    """Iterate over the functions of a 64-bit ELF object file."""
    if image[:5] != b"\x7fELF\x02":
        return
    (start,) = struct.unpack_from("<Q", image, 40)
    item, count = struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, start + i * item) for i in range(count)]
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, _, where, offset, size = struct.unpack_from("<IBBHQQ", image, at)
            if info & 15 == _FUNCTION:
                end = image.index(b"\0", names + name)
                yield Symbol(image[names + name : end].decode(), where, offset, size)


def loaded_functions(image: bytes, entry: str, address: int) -> list[Function]:
    """Return the addresses of an object file's functions, given that of its entry."""
    found = list(functions(image))
    for known in found:
        if known.name == entry:
            begin = address - known.offset
            # Sections are loaded separately.
            return [
                Function(symbol.name, begin + symbol.offset, symbol.size)
                for symbol in found
                if symbol.section == known.section
            ]
    return []


def write_perf_map(program: str, found: Sequence[Function]) -> None:
    """Add functions of a program to the map of this process."""
    path = f"{FOLDER}/perf-{os.getpid()}.map"
    lines = [f"{each.address:x} {each.size:x} kiln:{program}:{each.name}\n" for each in found]
    try:
        opened = os.open(path, _APPENDING, 0o600)
    except OSError as error:
        # A symbolic link, for example.
        warnings.warn(f"names for perf are not written: {error}", RuntimeWarning, stacklevel=2)
        return
    with open(opened, "a", encoding="utf-8") as file:
        about = os.fstat(opened)
        # Any user can create files in this folder, and can predict future names.
        if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and about.st_nlink == 1:
            file.writelines(lines)
            return
    text = f"names for perf are not written: {path} is not this process's"
    warnings.warn(text, RuntimeWarning, stacklevel=2)
