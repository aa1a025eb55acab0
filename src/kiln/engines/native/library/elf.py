"""Relocatable ELF files: their symbols, under other names, and files that hold only data."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.library.symbols import Rename, Symbol

MACHINES = {"x86_64": (62, 0), "aarch64": (183, 0), "riscv64": (243, 5)}
"""The numbers of architectures in the headers of files, and their flags: of riscv64, compressed
instructions and arguments in registers for f64."""
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MAGIC = b"\x7fELF\x02\x01\x01" + bytes(9)
_RELOCATABLE, _SYMBOLS, _STRINGS, _BITS = 1, 2, 3, 1
_LOCAL = 0
_UNDEFINED = 0
_HIDDEN = 2
_ALLOCATED = 2
_EXCLUDED = 0x80000000
_LINE = 64


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    item: int


class ElfFile:
    """A relocatable file of 64 bits, little-endian."""

    def __init__(self, image: bytes) -> None:
        if not image.startswith(_MAGIC[:6]):
            raise ValueError("not a relocatable ELF file of 64 bits")
        header = _HEADER.unpack_from(image)
        self.image = image
        self._sections_at, count = header[6], header[12]
        if count == 0:
            # The number of many sections is the size of the first.
            count = self._section(0).size
        sections = [self._section(i) for i in range(count)]
        (self._table,) = [i for i, s in enumerate(sections) if s.type == _SYMBOLS]
        table = sections[self._table]
        self._unwinding = [i for i, s in enumerate(sections) if self._is_unwinding(s, header[13])]
        self._strings_number = table.link
        self._strings = sections[table.link]
        self._places = range(table.offset, table.offset + table.size, _SYMBOL.size)

    def _section(self, number: int) -> _Section:
        at = self._sections_at + number * _SECTION.size
        return _Section(*_SECTION.unpack_from(self.image, at))

    def _is_unwinding(self, section: _Section, names: int) -> bool:
        start = self._section(names).offset + section.name
        return self.image.startswith(b".eh_frame\0", start)

    def symbols(self) -> list[Symbol]:
        """Return the symbols that are not local."""
        found = []
        for at in self._places:
            name, info, _, section, _, _ = _SYMBOL.unpack_from(self.image, at)
            if info >> 4 != _LOCAL:
                found.append(Symbol(self._name(name), section != _UNDEFINED))
        return found

    def renamed(self, rename: Rename) -> bytes:
        """Return the file with other names of symbols that are not local, for C.

        Those for which there is a name are hidden: no file outside a shared library sees them. No
        exception passes through the code, so its unwind tables are not linked.
        """
        image = bytearray(self.image)
        strings = self._strings
        names = bytearray(image[strings.offset : strings.offset + strings.size])
        for at in self._places:
            name, info, other, section, value, size = _SYMBOL.unpack_from(image, at)
            wanted = rename(self._name(name)) if info >> 4 != _LOCAL else None
            if wanted is None:
                continue
            place = len(names)
            names += wanted.encode() + b"\0"
            other = other & ~3 | _HIDDEN
            _SYMBOL.pack_into(image, at, place, info, other, section, value, size)
        for number in self._unwinding:
            section = self._section(number)
            left_out = section._replace(flags=section.flags | _EXCLUDED)
            _SECTION.pack_into(image, self._sections_at + number * _SECTION.size, *left_out)
        end = _rounded(len(image), 8)
        image += bytes(end - len(image)) + names
        moved = strings._replace(offset=end, size=len(names))
        _SECTION.pack_into(image, self._sections_at + self._strings_number * _SECTION.size, *moved)
        return bytes(image)

    def _name(self, offset: int) -> str:
        start = self._strings.offset + offset
        return self.image[start : self.image.index(b"\0", start)].decode()


def data_file(blocks: Mapping[str, bytes], architecture: str) -> bytes:
    """Return a file whose symbols are read-only data, each aligned to a cache line."""
    section_names = b"\0.rodata\0.symtab\0.strtab\0.note.GNU-stack\0"
    data, names = bytearray(), bytearray(section_names)
    symbols = [_SYMBOL.pack(0, 0, 0, 0, 0, 0)]
    for name, block in blocks.items():
        data += bytes(_rounded(len(data), _LINE) - len(data))
        # A global object in section 1.
        symbols.append(_SYMBOL.pack(len(names), 0x11, _HIDDEN, 1, len(data), len(block)))
        names += name.encode() + b"\0"
        data += block
    table = b"".join(symbols)
    data_at = _LINE
    table_at = _rounded(data_at + len(data), 8)
    names_at = table_at + len(table)
    sections_at = _rounded(names_at + len(names), 8)

    def at(name: bytes) -> int:
        return section_names.index(name + b"\0")

    sections = [
        _Section(0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        _Section(at(b".rodata"), _BITS, _ALLOCATED, 0, data_at, len(data), 0, 0, _LINE, 0),
        _Section(at(b".symtab"), _SYMBOLS, 0, 0, table_at, len(table), 3, 1, 8, _SYMBOL.size),
        _Section(at(b".strtab"), _STRINGS, 0, 0, names_at, len(names), 0, 0, 1, 0),
        # Without it the stack of the whole program would be executable.
        _Section(at(b".note.GNU-stack"), _BITS, 0, 0, names_at, 0, 0, 0, 1, 0),
    ]
    machine, flags = MACHINES[architecture]
    header = _HEADER.pack(
        _MAGIC, _RELOCATABLE, machine, 1, 0, 0, sections_at, flags, _HEADER.size,
        0, 0, _SECTION.size, len(sections), 3,
    )  # fmt: skip
    out = bytearray(sections_at)
    out[: len(header)] = header
    out[data_at : data_at + len(data)] = data
    out[table_at : table_at + len(table)] = table
    out[names_at : names_at + len(names)] = names
    return bytes(out) + b"".join(_SECTION.pack(*section) for section in sections)


def _rounded(size: int, step: int) -> int:
    return -(-size // step) * step
