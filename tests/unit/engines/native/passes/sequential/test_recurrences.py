"""Elements that a loop stores and loads again are carried in cells, and are stored as before."""

from __future__ import annotations

import re

import pytest

import kiln.numpy as jnp
from kiln import lax
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.sequential.recurrences import carry_elements
from tests.unit.engines.native.passes.agreement import agree, numbers

LOOP = """function f(%i0: f32[40], %i1: f32[9]) -> (%o2: f32[40]) {
  loop t < 9 {
    nest {
      v0: f32 = %o2[READ]
      v1: f32 = %i1[t]
      v2: f32 = add v0 v1
      %o2[STORED] = v2
    }
  }
}
"""
BEFORE = """  nest i < 40 {
    v0: f32 = %i0[i]
    %o2[i] = v0
  }
"""
CARRIED = """function f(%i0: f32[40], %i1: f32[9]) -> (%o2: f32[40]) {
  temp %t3: f32[1]
  temp %t4: f32[1]
  nest i < 40 {
    v0: f32 = %i0[i]
    %o2[i] = v0
  }
  nest {
    v0: f32 = %o2[1]
    v1: f32 = %o2[0]
    %t3[0] = v0
    %t4[0] = v1
  }
  loop t < 9 {
    nest {
      v0: f32 = %t4[0]
      v1: f32 = %i1[t]
      v2: f32 = add v0 v1
      v3: f32 = %t3[0]
      %o2[t + 2] = v2
      %t3[0] = v2
      %t4[0] = v3
    }
  }
}
"""


def loop(read: str, stored: str, *, text: str = LOOP) -> str:
    text = text.replace("READ", read).replace("STORED", stored)
    return text.replace("  loop", BEFORE + "  loop", 1)


def carried(text: str) -> str:
    function = parse(text)
    carry_elements(function)
    check(function, "recurrences")
    return to_text(function)


def cells(text: str) -> int:
    return carried(text).count("temp %")


def test_the_last_elements_are_in_cells() -> None:
    assert carried(loop("t", "t + 2")) == CARRIED


@pytest.mark.parametrize(
    ("read", "stored", "count"),
    [
        ("t", "t + 1", 1),
        ("t", "t + 4", 4),
        ("t*3 + 1", "t*3 + 4", 1),
        ("t*-1 + 9", "t*-1 + 8", 1),
        # What is stored later, or between two elements, or now, or long ago, is in memory.
        ("t + 1", "t", 0),
        ("t*2 + 1", "t*2 + 2", 0),
        ("t", "t", 0),
        ("t", "t + 5", 0),
        ("3", "t + 3", 0),
        ("t", "5", 0),
        ("t*2", "t + 1", 0),
    ],
)
def test_which_elements_are_carried(read: str, stored: str, count: int) -> None:
    assert cells(loop(read, stored)) == count


def test_a_loop_that_ends_sooner_loads_nothing_before() -> None:
    assert cells(loop("t", "t + 3").replace("t < 9", "t < 3")) == 3
    assert cells(loop("t", "t + 3").replace("t < 9", "t < 2")) == 0


@pytest.mark.parametrize(
    ("other", "count"),
    [
        # Parts of a row, the same element, and one that is this one later.
        ("%o2[t*2 + 3] = v1", 1),
        ("%o2[t*2 + 2] = v1", 0),
        ("%o2[t*2 + 8] = v1", 0),
        ("%o2[t] = v1", 0),
        ("%o2[1] = v1", 0),
    ],
)
def test_nothing_else_stores_the_element(other: str, count: int) -> None:
    text = loop("t*2", "t*2 + 2")
    assert (
        cells(
            text.replace("      %o2[t*2 + 2] = v2\n", f"      %o2[t*2 + 2] = v2\n      {other}\n")
        )
        == count
    )


def test_a_store_with_a_mask_may_keep_the_element() -> None:
    text = loop("t", "t + 1").replace("      v2:", "      v9: i1 = lt v0 v1\n      v2:")
    assert cells(text.replace("= v2", "= v2 if v9")) == 0


def test_threads_share_no_cell() -> None:
    text = (
        loop("t + b*10", "t + b*10 + 1").replace("  loop", "  parallel b < 3 {\n  loop", 1) + "}\n"
    )
    assert cells(text) == 0
    assert cells(text.replace("parallel", "loop")) == 1


BEFORE_ONE = """  nest {
    v0: KIND = %i0[0]
    %o1[0] = v0
  }
"""
COMPARED = """function f(%i0: KIND[9]) -> (%o1: KIND[1]) {
  loop t < 9 {
    nest {
      v0: KIND = %o1[0]
      v1: KIND = %i0[t]
      v2: KIND = min OPERANDS
      %o1[0] = v2
    }
  }
}
"""


@pytest.mark.parametrize(
    ("kind", "operands", "expected"),
    [
        ("f32", "v0 v1", "v1 v0"),
        ("f32", "v1 v0", "v1 v0"),
        ("f32", "v0 v0", "v0 v0"),
        ("i32", "v0 v1", "v0 v1"),
    ],
)
def test_what_waits_is_compared_last(kind: str, operands: str, expected: str) -> None:
    text = COMPARED.replace("  loop", BEFORE_ONE + "  loop", 1).replace("KIND", kind)
    found = carried(text.replace("OPERANDS", operands))
    loads = dict(re.findall(r"(v\d): \w+ = (%\S+)", found.split("loop")[1]))
    (compared,) = re.findall(r"min (v\d) (v\d)", found)
    names = {"%o1[0]": "v0", "%i0[t]": "v1"}
    assert " ".join(names[loads[x]] for x in compared) == expected


def test_programs_agree_with_their_meaning() -> None:
    def filled(xs, ys):
        return lax.fori_loop(2, 12, lambda i, a: a.at[i].set(a[i - 1] - a[i - 2] + xs[i]), xs)

    def reversed_(xs, ys):
        return lax.fori_loop(0, 11, lambda i, a: a.at[10 - i].set(a[11 - i] * 2 - xs[i]), xs)

    def rows(xs, ys):
        def row(i, a):
            x, y = a[i - 1]
            return a.at[i].set(jnp.stack([y, x - y + xs[i]]))

        return lax.fori_loop(1, 9, row, jnp.ones((9, 2), xs.dtype))

    def table(xs, ys):
        def row(i, a):
            def column(j, a):
                least = jnp.minimum(a[i - 1, j] + xs[i], a[i, j - 1] + xs[j])
                return a.at[i, j].set(jnp.minimum(least, a[i - 1, j - 1]))

            return lax.fori_loop(1, 5, column, a)

        return lax.fori_loop(1, 5, row, ys)

    def exchanged(xs, ys):
        def iteration(i, arrays):
            a, b = arrays
            return a.at[i].set(b[i - 1] + xs[i]), b.at[i].set(a[i - 1] - b[i - 1])

        return lax.fori_loop(1, 12, iteration, (xs, xs * 2))

    def swapped(xs, ys):
        def iteration(i, arrays):
            a, b = arrays
            return b.at[i].set(a[i - 1] + b[i]), a.at[i].set(b[i - 1] * 2)

        return lax.fori_loop(1, 12, iteration, (xs, xs * 2))

    def gathered(xs, ys):
        return lax.fori_loop(1, 12, lambda i, a: a.at[i].set(a[i - 1] + a[xs[i] % 12]), xs)

    for fun in (filled, reversed_, rows, table, exchanged, swapped, gathered):
        agree(fun, (numbers(12), numbers(5, 5, seed=1)))
