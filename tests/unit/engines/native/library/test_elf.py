"""Symbols of object files get other names, and data becomes object files."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from kiln.engines.native.library.elf import ElfFile, data_file
from kiln.engines.native.library.object_files import undefined
from kiln.engines.native.library.symbols import Symbol
from kiln.engines.native.llvm.assembly import assemble

TEXT = """
@table = external hidden constant i8
declare i32 @other(i32)
define i32 @entry(i32 %x) {
  %y = call i32 @other(i32 %x)
  %byte = load i8, ptr @table
  %more = zext i8 %byte to i32
  %sum = add i32 %y, %more
  ret i32 %sum
}
define internal i32 @inner(i32 %x) noinline {
  ret i32 %x
}
"""


def test_symbols_that_others_see() -> None:
    found = ElfFile(assemble(TEXT)).symbols()
    assert Symbol("entry", True) in found
    assert Symbol("other", False) in found
    assert "inner" not in {symbol.name for symbol in found}


def test_undefined_in_any_file() -> None:
    other = assemble("define i32 @other(i32 %x) {\n  ret i32 7\n}\n")
    files = [ElfFile(assemble(TEXT)), ElfFile(other)]
    assert undefined(files) == {"table"}


def test_renamed() -> None:
    names = {"entry": "model_entry", "other": "model_other"}
    file = ElfFile(ElfFile(assemble(TEXT)).renamed(names.get))
    assert {symbol.name for symbol in file.symbols()} == {"model_entry", "model_other", "table"}


def test_another_file_is_refused() -> None:
    with pytest.raises(ValueError, match="not a relocatable ELF file"):
        ElfFile(b"!<arch>\n" + bytes(100))


def test_data_symbols() -> None:
    file = ElfFile(data_file({"first": b"1234567", "second": b""}, "x86_64"))
    assert file.symbols() == [Symbol("first", True), Symbol("second", True)]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64")
def test_linked_with_data_under_other_names(tmp_path: Path) -> None:
    other = assemble("define i32 @other(i32 %x) {\n  %y = mul i32 %x, 10\n  ret i32 %y\n}\n")
    names = {"other": "model_other", "table": "model_table"}.get
    data = data_file({"unread": b"0" * 70, "table": b"\x05"}, "x86_64")
    files = []
    for i, image in enumerate((assemble(TEXT), other, data)):
        files.append(str(tmp_path / f"{i}.o"))
        Path(files[-1]).write_bytes(ElfFile(image).renamed(names))
    linked = tmp_path / "all.so"
    subprocess.run(["cc", "-shared", "-o", str(linked), *files], check=True)
    library = ctypes.CDLL(str(linked))
    assert library.entry(4) == 45
    assert not hasattr(library, "model_other")
    assert not hasattr(library, "model_table")
