"""Reading objects (ELF, 64 bit)."""

from __future__ import annotations


def undefined_symbols(image: bytes) -> list[str]:
    """Names that an object takes from elsewhere."""

    def at(offset: int, size: int) -> int:
        return int.from_bytes(image[offset : offset + size], "little")

    table, size, count = at(0x28, 8), at(0x3A, 2), at(0x3C, 2)
    names = []
    for i in range(count):
        section = table + i * size
        if at(section + 4, 4) != 2:
            continue
        offset, length, strings = at(section + 24, 8), at(section + 32, 8), at(section + 40, 4)
        start = at(table + strings * size + 24, 8)
        for entry in range(offset + 24, offset + length, 24):
            if at(entry + 6, 2) == 0:
                name = start + at(entry, 4)
                names.append(image[name : image.index(b"\0", name)].decode())
    return names
