"""Object files in the format of a target's system: ELF, Mach-O under macOS, or WebAssembly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kiln.engines.native.library import elf, macho, wasm_object
from kiln.engines.native.library.symbols import ObjectFile
from kiln.engines.native.llvm.assembly import assemble
from kiln.engines.native.llvm.target import Target

_LINE = 64


def object_file(image: bytes) -> ObjectFile:
    """Return a relocatable file.

    Raises: ValueError for other bytes.
    """
    if macho.is_macho(image):
        return macho.MachOFile(image)
    return wasm_object.WasmFile(image) if wasm_object.is_wasm(image) else elf.ElfFile(image)


def data_file(blocks: Mapping[str, bytes], target: Target) -> bytes:
    """Return a file whose symbols are read-only data, each aligned to a cache line."""
    if target.system == "macos":
        return macho.data_file(blocks)
    if target.is_module:
        return _data_of_module(blocks, target)
    return elf.data_file(blocks, target.triple)


def _data_of_module(blocks: Mapping[str, bytes], target: Target) -> bytes:
    data = [
        f'@{name} = hidden constant [{len(block)} x i8] c"{_escaped(block)}", align {_LINE}'
        for name, block in blocks.items()
    ]
    return assemble("\n".join(data) + "\n", target)


def _escaped(block: bytes) -> str:
    text = block.hex()
    return "".join([f"\\{text[i : i + 2]}" for i in range(0, len(text), 2)])


def undefined(files: Iterable[ObjectFile]) -> set[str]:
    """Return the names that files use and none of them defines."""
    used: set[str] = set()
    defined: set[str] = set()
    for file in files:
        for symbol in file.symbols():
            (defined if symbol.is_defined else used).add(symbol.name)
    return used - defined
