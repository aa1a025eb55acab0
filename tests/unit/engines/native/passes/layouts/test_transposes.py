"""Where the transposed operand of a nest may lie."""

from __future__ import annotations

import pytest

from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.layouts.transposes import transpose_operands

TEXT = """
function f(%i0: f32[4096], %i1: f32[4096]) -> (%o2: f32[4096]) {
  %o2[0] = copy(%i1[0]) [4096]
  nest i0 < 64, i1 < 64 {
    v0: f32 = %i0[i0 + i1*64]
    v1: f32 = %READ[i0*64 + i1]
    v2: f32 = mul v0 v1
    %o2[i0*64 + i1] = v2
  }
}
"""


@pytest.mark.parametrize(("read", "place"), [("i1", "%o2"), ("o2", "%t3")])
def test_a_result_that_is_read_is_not_overwritten_by_an_operand(read: str, place: str) -> None:
    function = parse(TEXT.replace("READ", read))
    transpose_operands(function)
    check(function, "transposes")
    assert f"{place}[0] = kiln_transpose(%i0[0])" in to_text(function)
