"""Symbols of WebAssembly files get other names."""

from __future__ import annotations

import pytest

from kiln.engines.native.library.object_files import data_file, object_file, undefined
from kiln.engines.native.library.symbols import Symbol
from kiln.engines.native.library.wasm_object import WasmFile
from kiln.engines.native.llvm.assembly import assemble
from kiln.engines.native.llvm.target import named

MODULE = named("wasm32")
TEXT = """
$shared = comdat any
@table = external hidden constant i8
@named = hidden constant i32 5
@counter = external global i32
declare i32 @other(i32)
define i32 @entry(i32 %x) {
  %y = call i32 @other(i32 %x)
  %z = call i32 @inner(i32 %y)
  %byte = load i8, ptr @table
  %more = zext i8 %byte to i32
  %count = load i32, ptr @counter
  %sum = add i32 %z, %more
  %all = add i32 %sum, %count
  ret i32 %all
}
define internal i32 @inner(i32 %x) noinline {
  ret i32 %x
}
define linkonce_odr i32 @shared() comdat {
  ret i32 3
}
define i32 @of_shared() {
  %x = call i32 @shared()
  ret i32 %x
}
"""
DEFINED = {"entry", "named", "shared", "of_shared"}
USED = {"table", "counter", "other"}


def _by_name(image: bytes) -> dict[str, bool]:
    return {symbol.name: symbol.is_defined for symbol in WasmFile(image).symbols()}


def test_symbols_that_others_see() -> None:
    found = _by_name(assemble(TEXT, MODULE))
    assert {name for name, is_defined in found.items() if is_defined} == DEFINED
    assert {name for name, is_defined in found.items() if not is_defined} - USED <= {
        "__linear_memory", "__stack_pointer", "__indirect_function_table",
    }  # fmt: skip


def test_renamed() -> None:
    names = {name: f"model_{name}" for name in DEFINED | USED}
    image = assemble(TEXT, MODULE)
    renamed = WasmFile(image).renamed(names.get)
    found = _by_name(renamed)
    assert {names.get(name, name): d for name, d in _by_name(image).items()} == found
    # The group, of which linkers keep one, too.
    assert renamed.count(b"model_shared") == 2
    # Names are all that differs.
    back = {new: name for name, new in names.items()}
    assert _by_name(WasmFile(renamed).renamed(back.get)) == _by_name(image)


def test_nothing_else_changes() -> None:
    image = assemble(TEXT, MODULE)
    # Numbers are written in fewer bytes.
    same = WasmFile(image).renamed(lambda name: None)
    assert len(image) - 100 < len(same) < len(image)
    assert WasmFile(same).renamed(lambda name: None) == same
    assert WasmFile(same).symbols() == WasmFile(image).symbols()


def test_data_symbols() -> None:
    file = object_file(data_file({"first": b"1234567", "second": bytes(range(99))}, MODULE))
    assert Symbol("first", True) in file.symbols()
    assert Symbol("second", True) in file.symbols()
    assert bytes(range(99)) in file.image
    assert undefined([object_file(assemble(TEXT, MODULE)), file]) >= USED


@pytest.mark.parametrize("image", [b"\x7fELF", b"\0asm\1\0\0\0"])
def test_other_files_are_refused(image: bytes) -> None:
    with pytest.raises(ValueError, match="not a relocatable WebAssembly file"):
        WasmFile(image)
