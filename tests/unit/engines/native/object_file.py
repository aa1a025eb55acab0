"""Reading objects (ELF, 64 bit). Those for macOS are read by kiln, which has its own tests."""

from __future__ import annotations

from kiln.engines.native.library.object_files import object_file, undefined


def undefined_symbols(image: bytes) -> list[str]:
    """Names that an object takes from elsewhere."""
    if image.startswith(b"\0asm"):
        return imported_functions(image)
    if not image.startswith(b"\x7fELF"):
        return sorted(undefined([object_file(image)]))

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


def imported_functions(image: bytes) -> list[str]:
    """Names of the functions that a WebAssembly object imports."""
    at = 8

    def number() -> int:
        nonlocal at
        found = shift = 0
        while True:
            byte = image[at]
            found, shift, at = found | (byte & 127) << shift, shift + 7, at + 1
            if byte < 128:
                return found

    def name() -> str:
        nonlocal at
        size = number()
        at += size
        return image[at - size : at].decode()

    def limits() -> None:
        if number() & 1:
            number()
        number()

    names = []
    while at < len(image):
        kind, end = number(), number() + at
        if kind != 2:
            at = end
            continue
        for _ in range(number()):
            _, field, what = name(), name(), number()
            if what == 0:
                names.append(field)
                number()
            elif what == 2:
                limits()
            elif what == 1:
                number()
                limits()
            else:
                number()
                number()
    return names
