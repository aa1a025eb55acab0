"""Loops become nests where no iteration needs another one, and reductions of integers."""

from __future__ import annotations

import pytest

from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.sequential.independent import run_at_once

ROWS = """function f(%i0: f32[12]) -> (%o1: f32[40]) {
  loop t < 4 {
    nest i < 3 {
      v0: f32 = %i0[t*3 + i]
      v1: f32 = %o1[PLACE]
      v2: f32 = add v0 v1
      %o1[t*STEP + i] = v2
    }
  }
}
"""
TOTAL = """function f(%i0: KIND[40]) -> (%o1: KIND[1]) {
  loop t < 40 {
    nest {
      v0: KIND = %o1[0]
      v1: KIND = %i0[t]
      v2: KIND = OPERATION
      %o1[0] = v2
    }
  }
}
"""


def joined(text: str) -> str:
    function = parse(text)
    run_at_once(function)
    check(function, "independent")
    return to_text(function)


@pytest.mark.parametrize(
    ("step", "place", "holds"),
    [
        ("3", "t*3 + i", True),
        ("-3", "t*-3 + i", True),
        ("5", "t*5 + i", True),
        ("2", "t*2 + i", False),
        ("3", "t*3 + i + 1", False),
        ("3", "t*3", False),
        ("3", "i", False),
        ("0", "i", False),
    ],
)
def test_iterations_that_write_apart_are_one_nest(step: str, place: str, holds: bool) -> None:
    text = ROWS.replace("STEP", step).replace("PLACE", place).replace("t*0 + ", "")
    if step == "-3":
        text = text.replace("t*-3 + i", "t*-3 + i + 9")
    found = joined(text)
    if holds:
        assert "loop" not in found
        assert "nest t < 4, i < 3 {" in found
    else:
        assert found == to_text(parse(text))


@pytest.mark.parametrize(
    ("kind", "operation", "holds"),
    [
        ("i32", "add v0 v1", True),
        ("i32", "max v1 v0", True),
        ("u8", "xor v0 v1", True),
        ("i32", "sub v0 v1", False),
        ("i32", "add v0 v0", False),
        ("f32", "add v0 v1", False),
        ("f32", "max v0 v1", False),
    ],
)
def test_integers_are_combined_in_any_order(kind: str, operation: str, holds: bool) -> None:
    text = TOTAL.replace("KIND", kind).replace("OPERATION", operation)
    found = joined(text)
    if holds:
        assert "loop" not in found
        assert f"= {operation.split()[0]} v0\n" in found
    else:
        assert found == to_text(parse(text))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    nest i < 3 {", "    nest {\n      %o1[39] = 1.0:f32\n    }\n    nest i < 3 {"),
        ("    nest i < 3 {", "    ordered i < 3 {"),
        ("loop t < 4", "parallel t < 4"),
        ("%o1[t*3 + i] = v2", "%o1[t*3] = add v0"),
    ],
)
def test_other_loops_stay(old: str, new: str) -> None:
    text = ROWS.replace("STEP", "3").replace("PLACE", "t*3 + i")
    assert old in text
    text = text.replace(old, new)
    assert joined(text) == to_text(parse(text))
