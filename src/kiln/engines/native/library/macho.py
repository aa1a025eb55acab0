"""Relocatable Mach-O files for ARM: their symbols, under other names, and files with only data."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.library.symbols import Rename, Symbol

_MAGIC = b"\xcf\xfa\xed\xfe"
_ARM64 = 0x0100000C
_RELOCATABLE = 1
_SUBSECTIONS = 0x2000
"""Of files: linkers may drop each symbol's code or data by itself."""
_HEADER = struct.Struct("<4sIIIIIII")
_COMMAND = struct.Struct("<II")
_SEGMENT = struct.Struct("<II16sQQQQIIII")
_SECTION = struct.Struct("<16s16sQQIIIIIIII")
_SYMBOLS = struct.Struct("<IIIIII")
_ORDER = struct.Struct("<II18I")
_VERSION = struct.Struct("<IIIIII")
_SYMBOL = struct.Struct("<IBBHQ")
_SEGMENT_OF, _SYMBOLS_OF, _ORDER_OF, _VERSION_OF = 0x19, 0x2, 0xB, 0x32
"""Kinds of commands, which say what is where in a file."""
_EXTERNAL, _HIDDEN, _IN_SECTION, _DEFINED, _OF_DEBUGGERS = 0x01, 0x10, 0x0E, 0x0E, 0xE0
"""Bits of the types of symbols."""
_READ_EXECUTE = 5
_MACOS, _OLDEST = 1, 11 << 16
_LINE_BITS = 6
_LINE = 1 << _LINE_BITS
_UNDERSCORE, _VERBATIM = "_", "\1"
"""What precedes the names of C in files, and other names in LLVM."""


class _Table(NamedTuple):
    """Where a file has its symbols and their names."""

    command: int
    symbols: int
    length: int
    names: int
    names_size: int


def is_macho(image: bytes) -> bool:
    """Tell whether a file is a Mach-O file of 64 bits, little-endian."""
    return image.startswith(_MAGIC)


class MachOFile:
    """A relocatable file of 64 bits, little-endian."""

    def __init__(self, image: bytes) -> None:
        if not is_macho(image) or _HEADER.unpack_from(image)[3] != _RELOCATABLE:
            raise ValueError("not a relocatable Mach-O file of 64 bits")
        self.image = image
        (self._table,) = [
            _Table(at, *_SYMBOLS.unpack_from(image, at)[2:])
            for at, kind in self._commands()
            if kind == _SYMBOLS_OF
        ]

    def _commands(self) -> Iterator[tuple[int, int]]:
        at = _HEADER.size
        for _ in range(_HEADER.unpack_from(self.image)[4]):
            kind, size = _COMMAND.unpack_from(self.image, at)
            yield at, kind
            at += size

    def _external(self) -> Iterator[tuple[int, str]]:
        """Yield the places and the names of symbols that are not local."""
        table = self._table
        for at in range(table.symbols, table.symbols + table.length * _SYMBOL.size, _SYMBOL.size):
            name, kind, _, _, _ = _SYMBOL.unpack_from(self.image, at)
            if kind & _EXTERNAL and not kind & _OF_DEBUGGERS:
                start = table.names + name
                text = self.image[start : self.image.index(b"\0", start)].decode()
                of_c = text.startswith(_UNDERSCORE)
                yield at, text[len(_UNDERSCORE) :] if of_c else f"{_VERBATIM}{text}"

    def symbols(self) -> list[Symbol]:
        """Return the symbols that are not local."""
        return [
            Symbol(name, bool(_SYMBOL.unpack_from(self.image, at)[1] & _DEFINED))
            for at, name in self._external()
        ]

    def renamed(self, rename: Rename) -> bytes:
        """Return the file with other names of symbols that are not local, for C.

        Those for which there is a name are hidden: no file outside a shared library sees them.
        """
        image, table = bytearray(self.image), self._table
        names = bytearray(image[table.names : table.names + table.names_size])
        for at, name in self._external():
            wanted = rename(name)
            if wanted is None:
                continue
            _, kind, section, description, value = _SYMBOL.unpack_from(image, at)
            if kind & _DEFINED:
                kind |= _HIDDEN
            _SYMBOL.pack_into(image, at, len(names), kind, section, description, value)
            names += f"{_UNDERSCORE}{wanted}\0".encode()
        end = _rounded(len(image), 8)
        names += bytes(_rounded(len(names), 8) - len(names))
        image += bytes(end - len(image)) + names
        moved = table._replace(names=end, names_size=len(names))
        _SYMBOLS.pack_into(image, table.command, _SYMBOLS_OF, _SYMBOLS.size, *moved[1:])
        return bytes(image)


def data_file(blocks: Mapping[str, bytes]) -> bytes:
    """Return a file for ARM whose symbols are read-only data, each aligned to a cache line."""
    data, names, symbols = bytearray(), bytearray(b"\0"), []
    for name, block in blocks.items():
        data += bytes(_rounded(len(data), _LINE) - len(data))
        kind = _IN_SECTION | _EXTERNAL | _HIDDEN
        symbols.append(_SYMBOL.pack(len(names), kind, 1, 0, len(data)))
        names += f"{_UNDERSCORE}{name}\0".encode()
        data += block
    names += bytes(_rounded(len(names), 8) - len(names))
    size, count = len(data), len(symbols)
    segment_size = _SEGMENT.size + _SECTION.size
    commands = segment_size + _VERSION.size + _SYMBOLS.size + _ORDER.size
    data_at = _rounded(_HEADER.size + commands, _LINE)
    symbols_at = _rounded(data_at + size, 8)
    names_at = symbols_at + count * _SYMBOL.size
    segment = (b"", 0, size, data_at, size, _READ_EXECUTE, _READ_EXECUTE, 1, 0)
    section = (b"__const", b"__TEXT", 0, size, data_at, _LINE_BITS, *[0] * 6)
    # The symbols are external and defined: from the first one on, this many.
    order = (0, 0, 0, count, count, *[0] * 13)
    parts = [
        _HEADER.pack(_MAGIC, _ARM64, 0, _RELOCATABLE, 4, commands, _SUBSECTIONS, 0),
        _SEGMENT.pack(_SEGMENT_OF, segment_size, *segment),
        _SECTION.pack(*section),
        _VERSION.pack(_VERSION_OF, _VERSION.size, _MACOS, _OLDEST, 0, 0),
        _SYMBOLS.pack(_SYMBOLS_OF, _SYMBOLS.size, symbols_at, count, names_at, len(names)),
        _ORDER.pack(_ORDER_OF, _ORDER.size, *order),
    ]
    head = b"".join(parts)
    out = head + bytes(data_at - len(head)) + data
    return out + bytes(symbols_at - len(out)) + b"".join(symbols) + bytes(names)


def _rounded(size: int, step: int) -> int:
    return -(-size // step) * step
