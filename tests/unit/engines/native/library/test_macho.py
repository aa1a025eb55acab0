"""Symbols of Mach-O files get other names, and data becomes such files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kiln.engines.native.library.archive import read_archive, write_archive
from kiln.engines.native.library.macho import MachOFile, data_file
from kiln.engines.native.library.object_files import object_file, undefined
from kiln.engines.native.library.symbols import Symbol
from kiln.engines.native.llvm.assembly import assemble
from kiln.engines.native.llvm.target import named

MACOS = named("aarch64-macos")
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
@"\\01verbatim" = constant i8 7
"""


def test_symbols_that_others_see() -> None:
    found = object_file(assemble(TEXT, MACOS)).symbols()
    assert sorted(found) == [
        Symbol("\1verbatim", True),
        Symbol("entry", True),
        Symbol("other", False),
        Symbol("table", False),
    ]


def test_undefined_in_any_file() -> None:
    other = assemble("define i32 @other(i32 %x) {\n  ret i32 7\n}\n", MACOS)
    assert undefined(map(object_file, (assemble(TEXT, MACOS), other))) == {"table"}


def test_renamed() -> None:
    names = {"entry": "model_entry", "other": "model_other"}
    image = MachOFile(assemble(TEXT, MACOS)).renamed(names.get)
    found = {symbol.name for symbol in MachOFile(image).symbols()}
    assert found == {"model_entry", "model_other", "table", "\1verbatim"}


def test_data_symbols() -> None:
    blocks = {"first": b"1234567", "second": b"", "third": bytes(range(200))}
    file = MachOFile(data_file(blocks))
    assert file.symbols() == [Symbol(name, True) for name in blocks]
    assert bytes(range(200)) in file.image


@pytest.mark.parametrize("image", [b"\x7fELF", b"\xcf\xfa\xed\xfe" + bytes(28)])
def test_other_files_are_refused(image: bytes) -> None:
    with pytest.raises(ValueError, match="not a relocatable Mach-O file"):
        MachOFile(image)


def test_archives_are_those_of_bsd() -> None:
    data = data_file({"table": b"\5"})
    members = [("a_name_of_many_letters.o", assemble(TEXT, MACOS)), ("b.o", data)]
    archive = write_archive(members)
    assert archive == write_archive(members)
    found = read_archive(archive)
    assert [name for name, _ in found] == [name for name, _ in members]
    for (_, content), (_, expected) in zip(found, members, strict=True):
        # Members are padded: Apple's linker maps them, and wants them aligned.
        assert content[: len(expected)] == expected
        assert len(content) - len(expected) < 8
        assert archive.index(content) % 8 == 0
    assert b"_entry\0" in archive[:200]


def test_a_reader_of_others_finds_the_same(tmp_path: Path) -> None:
    reader = pytest.importorskip("macholib.MachO")
    symbols = pytest.importorskip("macholib.SymbolTable")
    names = {"entry": "model_entry", "table": "model_table"}.get
    data = data_file({"unread": b"0" * 70, "table": b"\5"})
    hidden = []
    for i, image in enumerate((assemble(TEXT, MACOS), data)):
        path = tmp_path / f"{i}.o"
        path.write_bytes(MachOFile(image).renamed(names))
        file = reader.MachO(str(path))
        (part,) = file.headers
        assert (part.header.cputype, part.filetype) == (0x100000C, "object")
        found = symbols.SymbolTable(file).nlists
        hidden += [name for symbol, name in found if symbol.n_type & 0x10]
        if i == 1:
            ((section,),) = [
                own for c, _, own in part.commands if c.get_cmd_name() == "LC_SEGMENT_64"
            ]
            assert section.sectname.rstrip(b"\0") == b"__const"
            assert (section.size, section.align) == (129, 6)
            assert path.read_bytes()[section.offset + 128] == 5
    # Private to what they are linked into.
    assert sorted(hidden) == [b"_model_entry", b"_model_table", b"_unread"]
