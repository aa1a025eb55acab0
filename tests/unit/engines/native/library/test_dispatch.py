"""A library with code for several levels calls that of the host CPU's level."""

from __future__ import annotations

import ctypes

import pytest

from kiln.engines.native.library.dispatch import Forwarded, dispatch_text, name_at
from kiln.engines.native.llvm.assembly import assemble, load

LEVELS = (2, 3, 4)
FUNCTION = Forwarded("m", "_f", "i64", ("i64", "i64"))


def test_names() -> None:
    assert name_at(FUNCTION, 3) == "m_v3_f"
    assert name_at(Forwarded("m_f", "", "i32", ()), 4) == "m_f_v4"


@pytest.mark.parametrize(("level", "chosen"), [(2, 2), (3, 3), (4, 4), (1, 2), (9, 2)])
def test_calls(level: int, chosen: int) -> None:
    text = dispatch_text([FUNCTION], LEVELS).replace("declare hidden", "declare")
    given = "i64 %x, i64 %y"
    for each in LEVELS:
        name = name_at(FUNCTION, each)
        text = text.replace(
            f"declare i64 @{name}(i64, i64)",
            f"define i64 @{name}({given}) {{\n  %a = mul i64 %x, {each}\n"
            "  %b = add i64 %a, %y\n  ret i64 %b\n}",
        )
    text = text.replace(
        "declare i32 @kiln_library_level()",
        f"define i32 @kiln_library_level() {{\n  ret i32 {level}\n}}",
    )
    code = load(assemble(text), "m_f")
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(code.address)
    assert function(100, 7) == 100 * chosen + 7


def test_functions_without_results() -> None:
    text = dispatch_text([Forwarded("m", "_destroy", "void", ("ptr",))], LEVELS)
    assert text.count("ret void") == len(LEVELS)
    assert assemble(text)
