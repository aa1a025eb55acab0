"""Readers of several buffers that are written in pieces, and what must be as it was for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.pieces.cells import compute_in_cells
from tests.unit.engines.native.passes.agreement import agree, numbers

TEXT = """
function f(%i0: f32[8000], %i1: f32[8192]) -> (%o2: f32[8192]) {
  temp %t3: f32[8192]
  temp %t4: f32[8192]
  nest i0 < 8192 {
    %t3[i0] = 0.0:f32
    %t4[i0] = 1.0:f32
  }
  nest i1 < 8000 {
    v0: f32 = %i0[i1]
    %t3[i1] = v0
  }
  nest i1 < 8000 {
    v0: f32 = %i0[i1]
    v1: f32 = sqrt v0
    %t4[i1 + 192] = v1
  }
  nest i2 < 8192 {
    v0: f32 = %t3[i2]
    v1: f32 = %t4[i2]
    v2: f32 = %i1[i2]
    v3: f32 = add v0 v1
    v4: f32 = mul v2 v3
    %o2[i2] = v4
  }
}
"""


def divided(text: str) -> str:
    """Return loops after the pass."""
    function = parse(text)
    check(function, "text")
    compute_in_cells(function)
    check(function, "cells")
    return to_text(function).strip()


def test_cells() -> None:
    found = divided(TEXT)
    assert "%t" not in found
    assert [line.split("nest ")[1] for line in found.splitlines() if "nest " in line] == [
        "i2 < 192 {",  # the first and the last, of one shape
        "i2_1 < 7808 {",
    ]


UNCHANGED = {
    "an operand changes": (
        "  nest i2 < 8192 {",
        "  nest i3 < 8000 {\n    v0: f32 = %i1[i3]\n    %t5[i3] = v0\n  }\n  nest i2 < 8192 {",
    ),
    "the reader reads what it writes": ("v2: f32 = %i1[i2]", "v2: f32 = %o2[i2]"),
    "a piece adds": ("%t4[i1 + 192] = v1", "%t4[i1 + 192] = add v1"),
    "a piece is elsewhere": ("%t4[i1 + 192] = v1", "%t4[i1*-1 + 8191] = v1"),
    "the reader sums": ("%o2[i2] = v4", "%o2[0] = add v4"),
    "the reader is ordered": ("nest i2 < 8192", "ordered i2 < 8192"),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_is_not_divided(name: str) -> None:
    text = TEXT.replace(*UNCHANGED[name])
    if "%t5" in text:
        text = text.replace("v0: f32 = %i0[i1]\n    %t3", "v0: f32 = %t5[i1]\n    %t3")
        text = text.replace("  temp %t4", "  temp %t5: f32[8000]\n  temp %t4")
        text = text.replace("  nest i0", "  %t5[0] = copy(%i0[0]) [8000]\n  nest i0")
    assert text != TEXT
    assert divided(text) == to_text(parse(text)).strip()


def test_what_another_statement_reads_is_kept() -> None:
    text = TEXT.replace("-> (%o2: f32[8192])", "-> (%o2: f32[8192], %o5: f32[8192])").replace(
        "  nest i2 < 8192 {", "  %o5[0] = copy(%t4[0]) [8192]\n  nest i2 < 8192 {"
    )
    assert divided(text) == to_text(parse(text)).strip()


X = numbers(60, 90)


def above(x: Any, n: int) -> Any:
    return jnp.pad(x, ((n, 0), (0, 0)))


def below(x: Any, n: int) -> Any:
    return jnp.pad(x, ((0, n), (0, 0)))


def left(x: Any, n: int) -> Any:
    return jnp.pad(x, ((0, 0), (n, 0)))


def right(x: Any, n: int) -> Any:
    return jnp.pad(x, ((0, 0), (0, n)))


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda x: (
        jnp.pad(x[:, :30], ((0, 0), (0, 60))) + jnp.pad(x[:, :60], ((0, 0), (30, 0)))
    ),
    "rows": lambda x: jnp.pad(x[1:], ((0, 1), (0, 0))) - jnp.pad(x[:-1], ((1, 0), (0, 0))),
    "both": lambda x: jnp.pad(x[1:], ((0, 1), (0, 0))) * jnp.pad(x[:, 1:], ((0, 0), (1, 0))),
    "overlapping": lambda x: (
        jnp.pad(x[:40], ((9, 11), (0, 0))) - jnp.pad(x[:40], ((11, 9), (0, 0)))
    ),
    "of other axes": lambda x: (
        jnp.pad(x[1:], ((0, 1), (0, 0))).T + jnp.pad(x.T[1:], ((1, 0), (0, 0)))
    ),
    "shifted": lambda x: (jnp.pad(x, 1) - jnp.pad(x[::-1], 1))[1:, 2:],
    "apart": lambda x: (
        lax.pad(x, 0, ((0, 0, 1), (0, 0, 0)))[:60] + jnp.pad(x[1:], ((1, 0), (0, 0)))
    ),
    "written": lambda x: x.at[3:20].set(7) + x.at[:, 4:].set(2),
    "in place": lambda x: lax.fori_loop(0, 3, lambda i, x: below(x[1:], 1) - above(x[:-1], 1), x),
    "twice": lambda x: (lambda a, b: (a[1:] + a[:-1]) * (b[1:] - b[:-1]))(
        below(x[1:], 1), above(x[:-1], 1)
    ),
    "two results": lambda x: (lambda a, b: (a + b, a - b))(below(x[1:], 1), above(x[:-1], 1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    agree(PROGRAMS[name], [X], [X[::-1] * 3])


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_random_sums_of_padded_arrays(data: st.DataObject) -> None:
    sizes = data.draw(st.sampled_from([(8200,), (70, 80), (17, 24, 20)]))

    def part() -> Callable[[Any], Any]:
        cut, pad = [], []
        for size in sizes:
            low = data.draw(st.integers(0, size - 1)) if data.draw(st.booleans()) else 0
            high = data.draw(st.integers(low + 1, size)) if data.draw(st.booleans()) else size
            before = data.draw(st.integers(0, size - (high - low)))
            cut.append(slice(low, high))
            pad.append((before, size - (high - low) - before))
        value = data.draw(st.integers(-2, 2))
        return lambda x: jnp.pad(x[tuple(cut)] * 2, pad, constant_values=value)

    parts = [part() for _ in range(data.draw(st.integers(2, 4)))]
    agree(lambda x: sum((f(x) for f in parts), x), [numbers(*sizes)])


def test_gradients_of_slices_need_no_memory() -> None:
    x = np.linspace(0, 1, 20000, dtype=np.float32)
    for f in (
        lambda x: jnp.sum((x[1:] - x[:-1]) ** 2),
        lambda x: jnp.sum(jnp.sin(x.reshape(100, 200)[:, :100]) * x.reshape(100, 200)[:, 100:]),
        lambda x: sum(jnp.sum(part**n) for n, part in enumerate(jnp.split(x, 4))),
    ):
        with override(engine="native"):
            compiled = kiln.jit(kiln.grad(f)).lower(x).compile()
        assert compiled.memory_analysis().temp_size_in_bytes == 0
        with override(engine="reference"):
            expected = kiln.jit(kiln.grad(f))(x)
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-5, atol=1e-6)
