"""Object files in the format of a target's system: ELF, or Mach-O under macOS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kiln.engines.native.library import elf, macho
from kiln.engines.native.library.symbols import ObjectFile
from kiln.engines.native.llvm.target import Target


def object_file(image: bytes) -> ObjectFile:
    """Return a relocatable file.

    Raises: ValueError for other bytes.
    """
    return macho.MachOFile(image) if macho.is_macho(image) else elf.ElfFile(image)


def data_file(blocks: Mapping[str, bytes], target: Target) -> bytes:
    """Return a file whose symbols are read-only data, each aligned to a cache line."""
    if target.system == "macos":
        return macho.data_file(blocks)
    return elf.data_file(blocks, target.triple)


def undefined(files: Iterable[ObjectFile]) -> set[str]:
    """Return the names that files use and none of them defines."""
    used: set[str] = set()
    defined: set[str] = set()
    for file in files:
        for symbol in file.symbols():
            (defined if symbol.is_defined else used).add(symbol.name)
    return used - defined
