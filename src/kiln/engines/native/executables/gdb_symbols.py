"""KILN_GDB: symbols of compiled code for gdb, as object files that contain nothing else.

gdb reads an object file from memory for each program (`_runtime/native/debugger.cc`). Ours has a
section without contents at the address of the code, and its functions as `kiln.PROGRAM.FUNCTION`:
gdb would interpret text before a colon as a file name.

Source: "JIT Compilation Interface", Debugging with GDB; System V Application Binary Interface.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kiln import _runtime
from kiln.engines.native.executables.perf_map import Function

_HEADER, _SECTION, _SYMBOL = "<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ"
_RELOCATABLE = 1
_SYMBOLS, _STRINGS, _NO_BITS = 2, 3, 8
_ALLOCATED_CODE = 6
_GLOBAL_FUNCTION = 0x12
_SECTION_NAMES = b"\0.text\0.symtab\0.strtab\0"


def register(program: str, functions: Sequence[Function], machine: int) -> object:
    """Show functions of a program to debuggers as long as the returned object lives.

    `machine` is ELF's number of the architecture.
    """
    return _runtime.register_symbols(_object(program, functions, machine))


def _object(program: str, functions: Sequence[Function], machine: int) -> bytes:
    """Return an ELF object file with a section at the functions' addresses, and their symbols."""
    begin = min(each.address for each in functions)
    end = max(each.address + each.size for each in functions)
    strings, symbols = b"\0", struct.pack(_SYMBOL, 0, 0, 0, 0, 0, 0)
    for each in functions:
        offset = each.address - begin
        symbols += struct.pack(_SYMBOL, len(strings), _GLOBAL_FUNCTION, 0, 1, offset, each.size)
        strings += f"kiln.{program}.{each.name}\0".encode()
    strings_at = len(_SECTION_NAMES)
    names = _SECTION_NAMES + strings
    size = struct.calcsize(_HEADER)
    symbols_at = size + len(names) + -len(names) % 8
    sections_at = symbols_at + len(symbols)

    def section(name: bytes, kind: int, *rest: int) -> bytes:
        return struct.pack(_SECTION, _SECTION_NAMES.index(name + b"\0"), kind, *rest)

    sections = (
        bytes(struct.calcsize(_SECTION))
        + section(b".text", _NO_BITS, _ALLOCATED_CODE, begin, size, end - begin, 0, 0, 16, 0)
        # Its string table is section 3; symbols from 1 on are global.
        + section(b".symtab", _SYMBOLS, 0, 0, symbols_at, len(symbols), 3, 1, 8, 24)
        + section(b".strtab", _STRINGS, 0, 0, size + strings_at, len(strings), 0, 0, 1, 0)
        + section(b"", _STRINGS, 0, 0, size, strings_at, 0, 0, 1, 0)
    )
    identity = b"\x7fELF\x02\x01\x01"
    header = struct.pack(
        _HEADER, identity, _RELOCATABLE, machine, 1, 0, 0, sections_at, 0, size, 0, 0, 64, 5, 4
    )
    return header + names.ljust(symbols_at - size, b"\0") + symbols + sections


def machine_of(image: bytes) -> int:
    """Return the architecture number of an ELF object file."""
    (machine,) = struct.unpack_from("<H", image, 18)
    return int(machine)
