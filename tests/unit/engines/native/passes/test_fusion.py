"""What one nest may recompute of another one, where memory is written in between."""

from __future__ import annotations

import pytest

from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.fusion import fuse

IN_PLACE = """
function f(%i0: f32[8]) -> (%o1: f32[8]) {
  temp %t2: f32[8]
  %o1[0] = copy(%i0[0]) [8]
  nest i0 < 8 {
    v0: f32 = %o1[i0]
    v1: f32 = sqrt v0
    %t2[i0] = v1
  }
  nest i0 < 8 {
    v0: f32 = %t2[PLACE]
    %o1[i0] = v0
  }
}
"""


@pytest.mark.parametrize(("place", "is_fused"), [("i0", True), ("i0*-1 + 7", False)])
def test_what_a_nest_overwrites_is_read_where_it_is_written(place: str, is_fused: bool) -> None:
    """Elements at other places may be overwritten before they are read."""
    text = IN_PLACE.replace("PLACE", place)
    function = parse(text)
    fuse(function)
    check(function, "fusion")
    assert ("%t2" not in to_text(function)) == is_fused
    assert (to_text(function).strip() == text.strip()) != is_fused
