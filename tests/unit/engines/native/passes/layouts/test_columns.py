"""Temporaries of columns: which are divided, and what the programs compute then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.layouts.columns import divide_columns

TEXT = """
function f(%i0: i32[100], %i1: i32[100]) -> (%o2: i32[100]) {
  temp %t3: i32[200]
  nest i0 < 100, i1 < 1 {
    v0: i32 = %i0[i0]
    %t3[i0*2 + i1] = v0
  }
  nest i0 < 100 {
    v0: i32 = %i1[i0]
    v2: i32 = neg v0
    %t3[i0*2 + 1] = v2
  }
  nest i0 < 100 {
    v0: i32 = %t3[i0*2]
    v1: i32 = %t3[READ]
    v2: i32 = sub v0 v1
    %o2[i0] = v2
  }
}
"""


def divided(text: str) -> str:
    """Return loops after the pass."""
    function = parse(text)
    check(function, "text")
    divide_columns(function)
    check(function, "columns")
    return to_text(function).strip()


def test_each_column_is_a_buffer() -> None:
    assert (
        divided(TEXT.replace("READ", "i0*2 + 1"))
        == """\
function f(%i0: i32[100], %i1: i32[100]) -> (%o2: i32[100]) {
  temp %t3: i32[100]
  temp %t4: i32[100]
  nest i0 < 100, i1 < 1 {
    v0: i32 = %i0[i0]
    %t3[i0] = v0
  }
  nest i0 < 100 {
    v0: i32 = %i1[i0]
    v1: i32 = neg v0
    %t4[i0] = v1
  }
  nest i0 < 100 {
    v0: i32 = %t3[i0]
    v1: i32 = %t4[i0]
    v2: i32 = sub v0 v1
    %o2[i0] = v2
  }
}"""
    )


def test_rows_before_the_first_are_in_the_column() -> None:
    text = divided(TEXT.replace("READ", "i0*-2 + 199"))
    assert "v1: i32 = %t4[i0*-1 + 99]" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("READ", "i0"),  # across the columns
        ("READ", "i0 + 1"),
        ("%t3[READ]", "%i0[i0]\n    v9: i32 = %t3[v1 + 1]"),  # wherever an element says
        ("  nest i0 < 100, i1 < 1 {", "  %t3[0] = copy(%i0[0]) [100]\n  nest i0 < 100, i1 < 1 {"),
        ("temp %t3: i32[200]", "temp %t3: i32[201]"),
    ],
)
def test_what_stays(old: str, new: str) -> None:
    text = (
        TEXT.replace(old, new)
        .replace("READ", "i0*2 + 1")
        .replace("v0 v1", "v0 v9" if "v9" in new else "v0 v1")
    )
    assert divided(text) == to_text(parse(text)).strip()


def _indexed(x: Any, i: Any, j: Any) -> Any:
    return x[i, j] * 2


def _written(x: Any, i: Any, j: Any) -> Any:
    return x.at[i, j].set(3.0).at[j, i].add(1.0)


def _pairs(x: Any, i: Any, j: Any) -> Any:
    both = jnp.stack([i, j, i + j], -1)
    return both[:, 2] - both[:, 0], both.sum(1), jnp.stack([x, -x], -1)[..., 1]


@pytest.mark.parametrize("function", [_indexed, _written, _pairs])
@pytest.mark.parametrize("count", [1, 7, 300])
def test_programs_compute_the_same(function: Callable[..., Any], count: int) -> None:
    draw = np.random.default_rng(0)
    x = draw.standard_normal((9, 9)).astype("f")
    i, j = (draw.integers(-9, 9, count).astype("i4") for _ in range(2))
    with override(engine="reference"):
        expected = kiln.jit(lambda *xs: function(*xs))(x, i, j)
    with override(engine="native"):
        found = kiln.jit(lambda *xs: function(*xs))(x, i, j)
    for one, other in zip(kiln.tree.leaves(found), kiln.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_indexed_array_is_one_nest() -> None:
    i = np.arange(3000, dtype="i4") % 50
    text = kiln.jit(_indexed).lower(np.ones((50, 50), "f"), i, i).as_text("loops")
    assert text.count("nest") == 1
    assert "temp" not in text
