"""Archives of object files, as `ar` writes them: the format of static libraries.

There are two formats: GNU's, and for Mach-O files that of BSD.
"""

from __future__ import annotations

from collections.abc import Sequence

from kiln.engines.native.library.macho import is_macho
from kiln.engines.native.library.object_files import object_file

_BEGIN = b"!<arch>\n"
_END = b"`\n"
_HEADER = 60
_SHORT = 15
"""Longer names are in a member of their own."""
_BSD_NAME, _BSD_INDEX = "#1/", "__.SYMDEF"
"""The beginning of the name of a member that starts with its name; the name of the index."""

Member = tuple[str, bytes]


def read_archive(archive: bytes) -> list[Member]:
    """Return the names and the contents of the members.

    Raises: ValueError for bytes that are not an archive.
    """
    if not archive.startswith(_BEGIN):
        raise ValueError("not an archive")
    found: list[Member] = []
    long_names = b""
    at = len(_BEGIN)
    while at + _HEADER <= len(archive):
        header = archive[at : at + _HEADER]
        name, size = header[:16].decode().rstrip(), int(header[48:58])
        content = archive[at + _HEADER : at + _HEADER + size]
        at += _HEADER + size + size % 2
        if name.startswith(_BSD_NAME):
            length = int(name[len(_BSD_NAME) :])
            name, content = content[:length].rstrip(b"\0").decode(), content[length:]
            if name != _BSD_INDEX:
                found.append((name, content))
        elif name == "//":
            long_names = content
        elif name not in ("/", "/SYM64/"):
            if name.startswith("/"):
                start = int(name[1:])
                name = long_names[start : long_names.index(b"\n", start)].decode()
            found.append((name.rstrip("/"), content))
    return found


def write_archive(members: Sequence[Member]) -> bytes:
    """Return an archive with the index that linkers need; no part depends on time or user."""
    if any(is_macho(content) for _, content in members):
        return _bsd_archive(members)
    long_names = bytearray()
    headers = []
    for name, content in members:
        short = f"{name}/"
        if len(name) > _SHORT:
            short = f"/{len(long_names)}"
            long_names += name.encode() + b"/\n"
        headers.append(_header(short, len(content)))
    symbols = _index(members)
    names = b"".join(name.encode() + b"\0" for name, _ in symbols)
    index_size = 4 + 4 * len(symbols) + len(names)
    at = len(_BEGIN) + _HEADER + _even(index_size)
    if long_names:
        at += _HEADER + _even(len(long_names))
    places = []
    for _, content in members:
        places.append(at)
        at += _HEADER + _even(len(content))
    numbers = [len(symbols), *[places[number] for _, number in symbols]]
    index = b"".join(number.to_bytes(4, "big") for number in numbers) + names
    out = bytearray(_BEGIN + _header("/", len(index)) + _padded(index))
    if long_names:
        out += _header("//", len(long_names)) + _padded(bytes(long_names))
    for header, (_, content) in zip(headers, members, strict=True):
        out += header + _padded(content)
    return bytes(out)


def _index(members: Sequence[Member]) -> list[tuple[str, int]]:
    """Return the symbols that members define, each with the member's number."""
    return [
        (symbol.name, number)
        for number, (_, content) in enumerate(members)
        for symbol in object_file(content).symbols()
        if symbol.is_defined
    ]


def _bsd_archive(members: Sequence[Member]) -> bytes:
    symbols = _index(members)
    names = b"".join(f"_{name}\0".encode() for name, _ in symbols)
    names += bytes(-len(names) % 8)
    index_size = 4 + 8 * len(symbols) + 4 + len(names)
    at = len(_BEGIN) + len(_bsd_member(_BSD_INDEX, bytes(index_size)))
    places = []
    parts = [_bsd_member(name, content) for name, content in members]
    for part in parts:
        places.append(at)
        at += len(part)
    index = (8 * len(symbols)).to_bytes(4, "little")
    start = 0
    for name, number in symbols:
        index += start.to_bytes(4, "little") + places[number].to_bytes(4, "little")
        start += len(name) + 2
    index += len(names).to_bytes(4, "little") + names
    return b"".join([_BEGIN, _bsd_member(_BSD_INDEX, index), *parts])


def _bsd_member(name: str, content: bytes) -> bytes:
    """Return a member whose content is aligned, as Apple's linker wants it, and of such a size."""
    own = name.encode() + b"\0"
    own += bytes(-(_HEADER + len(own)) % 8)
    content += bytes(-len(content) % 8)
    return _header(f"{_BSD_NAME}{len(own)}", len(own) + len(content)) + own + content


def _header(name: str, size: int) -> bytes:
    text = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{size:<10}"
    return text.encode() + _END


def _even(size: int) -> int:
    return size + size % 2


def _padded(content: bytes) -> bytes:
    return content + b"\n" * (len(content) % 2)
