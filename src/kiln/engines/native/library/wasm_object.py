"""Relocatable WebAssembly files: their symbols, under other names.

The conventions are those of LLVM's tools: a custom section `linking` holds the symbols. An
undefined symbol has the name of what it imports, unless it has a name of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.library.symbols import Rename, Symbol

_MAGIC = b"\0asm\1\0\0\0"
_CUSTOM, _IMPORTS = 0, 2
_LINKING = b"linking"
_GROUPS, _SYMBOLS = 7, 8
"""Parts of the section of symbols: groups of which linkers keep one, and the symbols."""
_FUNCTION, _DATA, _GLOBAL, _SECTION, _TAG, _TABLE = range(6)
_OF_IMPORTS = (_FUNCTION, _TABLE, -1, _GLOBAL, _TAG)
"""The kinds of symbols by the kinds of imports; a memory has no symbol."""
_LOCAL, _HIDDEN, _UNDEFINED, _NAMED = 0x2, 0x4, 0x10, 0x40


class _Section(NamedTuple):
    kind: int
    content: bytes


class _Entry(NamedTuple):
    """A symbol; `rest` follows its name. Sections have no names."""

    kind: int
    flags: int
    number: int
    name: str
    rest: bytes


class _Reader:
    """Reads numbers and texts one after the other."""

    def __init__(self, content: bytes, at: int = 0) -> None:
        self.content, self.at = content, at

    def byte(self) -> int:
        """Return the next byte."""
        self.at += 1
        return self.content[self.at - 1]

    def number(self) -> int:
        """Return the next number, of 7 bits a byte."""
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        self.at += size
        return self.content[self.at - size : self.at]

    def text(self) -> bytes:
        """Return the next text."""
        return self.take(self.number())


def is_wasm(image: bytes) -> bool:
    """Tell whether a file is a WebAssembly file."""
    return image.startswith(_MAGIC)


class WasmFile:
    """A relocatable file."""

    def __init__(self, image: bytes) -> None:
        self.image = image
        self._sections = list(_sections(image)) if is_wasm(image) else []
        names = [_name_of(section) for section in self._sections]
        if _LINKING not in names:
            raise ValueError("not a relocatable WebAssembly file")
        self._linking = names.index(_LINKING)
        self._entries = self._read_symbols()

    def symbols(self) -> list[Symbol]:
        """Return the symbols that are not local."""
        return [
            Symbol(entry.name, not entry.flags & _UNDEFINED)
            for entry in self._entries
            if entry.kind != _SECTION and not entry.flags & _LOCAL
        ]

    def renamed(self, rename: Rename) -> bytes:
        """Return the file with other names of symbols that are not local, for C.

        Those for which there is a name are hidden: no module exports them. Groups are named by
        symbols, and renamed with them.
        """
        version, *parts = self._parts()
        written = version.content
        for part in parts:
            content = part.content
            if part.kind == _SYMBOLS:
                content = _symbol_table([_with_name(entry, rename) for entry in self._entries])
            elif part.kind == _GROUPS:
                content = _renamed_groups(content, rename)
            written += bytes([part.kind]) + _written(len(content)) + content
        out = _MAGIC
        for number, section in enumerate(self._sections):
            content = section.content
            if number == self._linking:
                content = _written(len(_LINKING)) + _LINKING + written
            out += bytes([section.kind]) + _written(len(content)) + content
        return out

    def _parts(self) -> Iterator[_Section]:
        """Yield the version of the section of symbols, then its parts."""
        reader = _Reader(self._sections[self._linking].content)
        reader.text()
        start = reader.at
        reader.number()
        yield _Section(-1, reader.content[start : reader.at])
        while reader.at < len(reader.content):
            kind = reader.byte()
            yield _Section(kind, reader.text())

    def _read_symbols(self) -> list[_Entry]:
        imported = self._imported()
        entries: list[_Entry] = []
        for part in self._parts():
            if part.kind == _SYMBOLS:
                reader = _Reader(part.content)
                entries += [_entry(reader, imported) for _ in range(reader.number())]
        return entries

    def _imported(self) -> dict[int, list[str]]:
        """Return the names of imports of each kind."""
        found: dict[int, list[str]] = {kind: [] for kind in _OF_IMPORTS}
        for section in self._sections:
            if section.kind != _IMPORTS:
                continue
            reader = _Reader(section.content)
            for _ in range(reader.number()):
                reader.text()
                name = reader.text().decode()
                kind = _OF_IMPORTS[reader.byte()]
                found[kind].append(name)
                _skip_import(reader, kind)
        return found


def _sections(image: bytes) -> Iterator[_Section]:
    reader = _Reader(image, len(_MAGIC))
    while reader.at < len(image):
        kind = reader.byte()
        yield _Section(kind, reader.text())


def _name_of(section: _Section) -> bytes:
    return _Reader(section.content).text() if section.kind == _CUSTOM else b""


def _skip_import(reader: _Reader, kind: int) -> None:
    """Skip the type of an import."""
    if kind == _FUNCTION:
        reader.number()
    elif kind in (_GLOBAL, _TAG):
        reader.byte()
        reader.number()
    else:
        if kind == _TABLE:
            reader.byte()
        has_most = reader.number() & 1
        reader.number()
        if has_most:
            reader.number()


def _entry(reader: _Reader, imported: dict[int, list[str]]) -> _Entry:
    kind, flags = reader.byte(), reader.number()
    if kind == _SECTION:
        return _Entry(kind, flags, reader.number(), "", b"")
    if kind == _DATA:
        name, start = reader.text().decode(), reader.at
        if not flags & _UNDEFINED:
            for _ in range(3):
                reader.number()
        return _Entry(kind, flags, 0, name, reader.content[start : reader.at])
    index = reader.number()
    if flags & _UNDEFINED and not flags & _NAMED:
        return _Entry(kind, flags, index, imported[kind][index], b"")
    return _Entry(kind, flags, index, reader.text().decode(), b"")


def _with_name(entry: _Entry, rename: Rename) -> _Entry:
    is_local = entry.kind == _SECTION or entry.flags & _LOCAL
    name = None if is_local else rename(entry.name)
    if name is None:
        return entry
    is_undefined = entry.flags & _UNDEFINED
    flags = entry.flags | (_NAMED if is_undefined else _HIDDEN)
    return entry._replace(name=name, flags=flags)


def _symbol_table(entries: list[_Entry]) -> bytes:
    out = bytearray(_written(len(entries)))
    for kind, flags, number, name, rest in entries:
        out += bytes([kind]) + _written(flags)
        if kind != _DATA:
            out += _written(number)
        has_name = kind == _DATA or not flags & _UNDEFINED or flags & _NAMED
        if kind != _SECTION and has_name:
            text = name.encode()
            out += _written(len(text)) + text
        out += rest
    return bytes(out)


def _renamed_groups(content: bytes, rename: Rename) -> bytes:
    reader = _Reader(content)
    count = reader.number()
    out = bytearray(_written(count))
    for _ in range(count):
        name = reader.text().decode()
        text = (rename(name) or name).encode()
        start = reader.at
        reader.number()
        for _ in range(reader.number()):
            reader.byte()
            reader.number()
        out += _written(len(text)) + text + content[start : reader.at]
    return bytes(out)


def _written(number: int) -> bytes:
    """Return a number in 7 bits a byte."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
