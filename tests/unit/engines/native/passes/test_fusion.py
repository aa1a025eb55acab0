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


NEXT_CARRY = """
function f(%i0: f32[8], %i1: f32[8]) -> (%o2: f32[8], %o3: f32[8]) {
  %o3[0] = copy(%i1[0]) [8]
  nest i0 < 8 {
    v0: f32 = %o3[PLACE]
    v1: f32 = %i0[i0]
    v2: f32 = mul v0 v1
    v3: f32 = exp v2
    %o2[i0] = v3
  }
  nest i0 < 8 {
    v0: f32 = %o3[i0]
    v1: f32 = %i0[i0]
    v2: f32 = mul v0 v1
    v3: f32 = exp v2
    %o3[i0] = v3
  }
}
"""


@pytest.mark.parametrize(("place", "nests"), [("i0", 1), ("i0*-1 + 7", 2), ("0", 2)])
def test_a_nest_may_overwrite_what_the_one_before_reads_at_the_same_point(
    place: str, nests: int
) -> None:
    """So the next carry and the row of a result, which share most operations, are one nest."""
    function = parse(NEXT_CARRY.replace("PLACE", place))
    fuse(function)
    check(function, "fusion")
    assert to_text(function).count("nest") == to_text(function).count("exp") == nests


def test_a_sum_stays_apart_from_what_overwrites_its_operand() -> None:
    """A product's epilogue does not reduce."""
    text = NEXT_CARRY.replace("PLACE", "i0").replace("%o2[i0] =", "%o2[0] = add")
    function = parse(text)
    fuse(function)
    assert to_text(function).count("nest") == 2
