"""Whether a result may lie where an operand does, by which of the two is touched first."""

from __future__ import annotations

import pytest

from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.donation import reusable

COPY = "%o1[0] = copy(%i0[0]) [4]"
WRITE = """nest i0 < 4 {
    %o1[i0] = 1.0:f32
  }"""
ADD = """nest i0 < 4 {
    v0: f32 = %i0[i0]
    v1: f32 = add v0 1.0:f32
    %o1[i0] = v1
  }"""
READ = """nest i0 < 4 {
    v0: f32 = %i0[i0]
    %t2[i0] = v0
  }"""


@pytest.mark.parametrize(
    ("statements", "is_safe"),
    [
        ([COPY], True),
        ([ADD], True),
        ([READ, WRITE], True),
        ([COPY, READ, WRITE], True),
        # The operand lies under what was written: its elements are gone.
        ([WRITE, READ], False),
        ([WRITE, COPY], False),
        ([ADD, COPY], False),
        ([WRITE, ADD], False),
    ],
)
def test_an_operand_is_read_before_the_result_is_begun(
    statements: list[str], is_safe: bool
) -> None:
    body = "\n  ".join(statements)
    text = f"function f(%i0: f32[4]) -> (%o1: f32[4]) {{\n  temp %t2: f32[4]\n  {body}\n}}"
    function = parse(text)
    check(function, "parsing")
    assert reusable(function, {0: 0}) == ([(0, 0)] if is_safe else [])
