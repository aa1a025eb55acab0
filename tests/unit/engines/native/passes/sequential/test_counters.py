"""Counters of loops become functions of the loops' axes, where nothing else changes them."""

from __future__ import annotations

import pytest

import kiln.numpy as jnp
from kiln import lax
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.sequential.counters import count_by_axes
from tests.unit.engines.native.passes.agreement import agree, numbers

FILLED = """function f(%i0: f32[10]) -> (%o1: f32[10]) {
  temp %t2: i32[1]
  nest {
    %t2[0] = 0:i32
  }
  loop t < 9 {
    nest {
      v0: i32 = %t2[0]
      v1: i1 = lt v0 0:i32
      v2: i32 = add v0 10:i32
      v3: i32 = select v1 v2 v0
      v4: i32 = max v3 0:i32
      v5: i32 = min v4 9:i32
      v6: f32 = %i0[v5]
      v7: i32 = add v0 1:i32
      v8: i1 = le v7 9:i32
      %o1[v7] = v6 if v8
      %t2[0] = v7
    }
  }
}
"""
WRITTEN = "      %t2[0] = v7\n    }\n"
READ = "    nest {\n      v0: i32 = %t2[0]\n      v1: f32 = convert v0\n      %o1[0] = v1\n    }\n"
COUNTED = """function f(%i0: f32[10]) -> (%o1: f32[10]) {
  loop t < 9 {
    nest {
      v0: f32 = %i0[t]
      %o1[t + 1] = v0
    }
  }
}
"""
ENDING = """function f(%i0: f32[10]) -> (%o1: FIRST[1]) {
  temp %t2: i1[1]
  nest {
    %o1[0] = 1:FIRST
  }
  while %t2 {
    nest {
      v0: FIRST = %o1[0]
      v1: i1 = COMPARED
      %t2[0] = v1
    }
  } do {
    nest {
      v0: FIRST = %o1[0]
      v1: FIRST = add v0 STEP:FIRST
      %o1[0] = v1
    }
  }
}
"""


def counted(text: str) -> str:
    function = parse(text)
    count_by_axes(function)
    check(function, "counters")
    return to_text(function)


def test_computed_places_become_linear_ones() -> None:
    assert counted(FILLED) == COUNTED


@pytest.mark.parametrize(
    ("dtype", "compared", "step", "last"),
    [
        ("i32", "lt v0 9:i32", 1, 9),
        ("i32", "lt v0 9:i32", 3, 10),
        ("i32", "le v0 9:i32", 4, 13),
        ("i32", "gt 9:i32 v0", 2, 9),
        ("i32", "ge v0 -9:i32", -2, -11),
        ("i32", "gt v0 -9:i32", -1, -9),
        ("i32", "ne v0 9:i32", 2, 9),
        ("u8", "lt v0 250:u8", 5, 251),
        ("i32", "ne v0 9:i32", 3, None),
        ("i32", "lt v0 9:i32", -1, None),
        ("i32", "lt v0 1:i32", 1, None),
        ("i32", "lt v0 2:i32", 1, None),
        ("i32", "eq v0 9:i32", 1, None),
        ("i32", "lt v0 v0", 1, None),
        ("i8", "le v0 126:i8", 3, 127),
        ("i8", "le v0 127:i8", 3, None),
        ("u8", "lt v0 255:u8", 5, None),
    ],
)
def test_loops_that_count_to_a_constant(
    dtype: str, compared: str, step: int, last: int | None
) -> None:
    text = ENDING.replace("FIRST", dtype).replace("COMPARED", compared)
    text = text.replace("STEP", str(step))
    found = counted(text)
    if last is None:
        assert found == to_text(parse(text))
    else:
        # Nothing is left of the loop but the last number.
        assert "while" not in found
        assert f"%o1[0] = {last}:{dtype}" in found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%t2[0] = 0:i32", "v9: f32 = %i0[0]\n    v8: i32 = convert v9\n    %t2[0] = v8"),
        ("v7: i32 = add v0 1:i32", "v7: i32 = mul v0 2:i32"),
        ("%t2[0] = v7", "%t2[0] = v7 if v8"),
        (WRITTEN, WRITTEN + READ),
        (WRITTEN, WRITTEN + "    nest {\n      %t2[0] = 3:i32\n    }\n"),
        ("  loop t < 9 {\n", "  loop t < 9 {\n    branch %t2[0] {\n      nest {\n"
         "        %o1[0] = 1.0:f32\n      }\n    } else {\n    }\n"),
        ("  temp %t2: i32[1]\n", "  temp %t2: i32[2]\n"),
    ],
)  # fmt: skip
def test_other_numbers_stay(old: str, new: str) -> None:
    assert old in FILLED
    text = FILLED.replace(old, new)
    assert counted(text) == to_text(parse(text))


def test_what_is_not_decided_stays() -> None:
    text = FILLED.replace("loop t < 9", "loop t < 12")
    found = counted(text)
    assert "min" in found
    assert "if" in found
    assert "lt" not in found
    # The last place is neither below nor above.
    assert "lt" in counted(FILLED.replace("lt v0 0:i32", "lt v0 8:i32"))
    assert "le" in counted(FILLED.replace("le v7 9:i32", "le v7 8:i32"))


INDICES = """function f(%i0: f32[10]) -> (%o1: f32[10]) {
  temp %t2: i32[1]
  temp %t3: i32[2]
  nest {
    %t2[0] = 0:i32
  }
  loop t < 9 {
    nest {
      v0: i32 = %t2[0]
      v1: i32 = add v0 1:i32
      %t3[0] = v1
      %t3[1] = v0
    }
    nest {
      v0: i32 = %t3[0]
      v1: i32 = %t3[1]
      v2: i32 = max v1 0:i32
      v3: f32 = %i0[v2]
      v4: i32 = max v0 0:i32
      v5: i32 = min v4 9:i32
      v6: i1 = le v0 9:i32
      %o1[v5] = v3 if v6
    }
    nest {
      v0: i32 = %t2[0]
      v1: i32 = add v0 1:i32
      %t2[0] = v1
    }
  }
}
"""


FIRST_NEST = """      v1: i32 = add v0 1:i32
      %t3[0] = v1
      %t3[1] = v0
    }
"""
COMPUTED = "      v8: i32 = min v0 1:i32\n"


def test_an_element_that_is_set_to_a_counter_is_one() -> None:
    assert counted(INDICES) == COUNTED


@pytest.mark.parametrize(
    "change",
    [
        FIRST_NEST + "    nest {\n      %t3[0] = 3:i32\n    }\n",
        FIRST_NEST
        + f"    nest {{\n      v0: i32 = %t3[1]\n{COMPUTED}      %t3[v8] = 3:i32\n    }}\n",
        FIRST_NEST + "    branch %t3[0] {\n      nest {\n        %t3[0] = 3:i32\n      }\n    }\n",
        COMPUTED + FIRST_NEST.replace("%t3[1]", "%t3[v8]"),
        FIRST_NEST.replace("%t3[1]", "%t3[0]"),
        "      v8: i1 = lt v0 5:i32\n" + FIRST_NEST.replace("= v1", "= v1 if v8"),
    ],
    ids=["again", "somewhere", "in an arm", "beside", "twice", "masked"],
)
def test_an_element_that_may_be_something_else_is_none(change: str) -> None:
    assert "le v" in counted(INDICES.replace(FIRST_NEST, change, 1))


def test_programs_agree_with_their_meaning() -> None:
    def nested(xs, ys):
        def row(i, ys):
            return lax.fori_loop(0, 4, lambda j, ys: ys.at[i, j + 1].add(xs[i * 4 + j]), ys)

        return lax.fori_loop(0, 3, row, ys)

    def counted_twice(xs, ys):
        def turn(state):
            i, j, ys = state
            return i + 2, j - 1, ys.at[j, i].set(xs[i] * ys[i, j])

        return lax.while_loop(lambda s: s[0] < 5, turn, (0, 2, ys))

    def beyond(xs, ys):
        return lax.while_loop(lambda s: s[0] < 40, lambda s: (s[0] + 1, s[1] + xs[s[0]]), (-20, ys))

    def kernel(xs, ys):
        square = xs.reshape(4, 3)

        def turn(i, total):
            return total + jnp.matmul(lax.dynamic_slice(square, (i, 0), (2, 3)), square.T)

        return lax.fori_loop(0, 4, turn, jnp.zeros((2, 4), jnp.int32))

    def narrow(xs, ys):
        def iteration(i, ys):
            at = lax.convert_element_type(i * 100, jnp.int8)
            return ys.at[i].add(xs[lax.convert_element_type(at, jnp.int32)])

        return lax.fori_loop(0, 5, iteration, ys)

    for fun in (nested, counted_twice, beyond, kernel, narrow):
        agree(fun, (numbers(12), numbers(5, 5, seed=1)))
