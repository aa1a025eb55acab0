"""Padded, joined and reversed arrays: what reads them is computed where each piece is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.pieces.producers import compute_in_pieces

RNG = np.random.default_rng(0)
X = RNG.random((200, 150), np.float32)


def text(f: Callable[..., Any], *args: Any) -> str:
    """Return a program's loops as text."""
    with override(engine="native"):
        return str(kiln.jit(f).lower(*args).as_text("loops"))


def same(f: Callable[..., Any], *args: Any) -> None:
    """Compare the native engine with the meaning, bit by bit."""
    with override(engine="reference"):
        expected = kiln.tree.leaves(kiln.jit(f)(*args))
    for threads in (1, 2):
        with override(engine="native", check=True), kiln.num_threads(threads):
            found = kiln.tree.leaves(kiln.jit(lambda *xs: f(*xs))(*args))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "pad": lambda x: jnp.pad(x, 3) * 2,
    "pad unevenly": lambda x: jnp.pad(x, ((0, 5), (2, 0)), constant_values=7) - 1,
    "pad one axis": lambda x: jnp.pad(x, ((1, 1), (0, 0))) + 0.5,
    "cut and pad": lambda x: lax.pad(x, np.float32(2), ((-3, 4, 0), (5, -2, 0))) * 3,
    "pad between": lambda x: lax.pad(x, np.float32(2), ((1, 0, 1), (0, 3, 0))) * 3,
    "pad away": lambda x: lax.pad(x, np.float32(2), ((-200, 100, 0), (0, 99, 0))) * 3,
    "pad three axes": lambda x: jnp.pad(x.reshape(20, 10, -1), 2) * 2,
    "join": lambda x: jnp.concatenate([x, x * 2, x[:7]]) * 0.5,
    "join columns": lambda x: jnp.concatenate([x, x[:, ::2]], 1) + 1,
    "roll": lambda x: jnp.roll(x, 5, 0) - x,
    "roll and flip": lambda x: jnp.roll(jnp.flip(x, (1,)), 5, 0) + x,
    "turned": lambda x: jnp.roll(x, 5, 0).T + 1,
    "read twice": lambda x: (lambda y: (y * 2, jnp.max(y)))(jnp.concatenate([x, x])),
    "read shifted": lambda x: (lambda y: y[1:] - y[:-1])(jnp.concatenate([x, x])),
    "part read": lambda x: jnp.concatenate([x, x])[100:300] * 2,
    "dear": lambda x: jnp.cbrt(jnp.concatenate([x, x * 0]).at[:300].set(1)),
    "two results": lambda x: (lambda y: (y * 2, y + 1))(jnp.roll(x, 3, 1)),
    "complex": lambda x: jnp.pad(x + 1j, 2) * 2,
    "bools": lambda x: ~jnp.pad(x > 0.5, 2),
    "in a loop": lambda x: lax.fori_loop(0, 3, lambda i, s: jnp.roll(s, 1, 0) + s, x),
    "reversed": lambda x: x[:, ::-1] + x[::-1],
    "every second, reversed": lambda x: x[:, ::-2] * 2,
    "reversed sum": lambda x: jnp.cumsum(x[:, ::-1] > 0.5, 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_they_mean(name: str) -> None:
    same(PROGRAMS[name], X)
    same(PROGRAMS[name], X.astype(np.float16).astype(np.float32)[:, :149] * 8)


IN_BETWEEN = """
function f(%i0: f32[8192], %i1: f32[8192]) -> (%o2: f32[8192]) {
  temp %t3: f32[8192]
  temp %t4: f32[8192]
  nest i0 < 4096 {
    v0: f32 = %i0[i0]
    %t3[i0] = v0
  }
  nest i1 < 8192 {
    v0: f32 = %i1[i1]
    v1: f32 = sqrt v0
    %t4[i1] = v1
  }
  nest i2 < 4096 {
    v0: f32 = %i0[i2 + 4096]
    %t3[i2 + 4096] = v0
  }
  nest i3 < 8192 {
    v0: f32 = %t3[i3]
    v1: f32 = %t4[i3]
    v2: f32 = add v0 v1
    %o2[i3] = v2
  }
}
"""


def test_no_piece_is_computed_before_what_its_reader_needs() -> None:
    function = parse(IN_BETWEEN)
    compute_in_pieces(function)
    assert to_text(function).strip() == IN_BETWEEN.strip()
    # An operand is there all the time.
    function = parse(IN_BETWEEN.replace("v1: f32 = %t4[i3]", "v1: f32 = %i1[i3]"))
    compute_in_pieces(function)
    check(function, "pieces")
    assert "%o2[i2 + 4096] = " in to_text(function)


def test_what_is_joined_is_not_kept() -> None:
    assert "%t" not in text(PROGRAMS["join"], X)
    assert "%t" not in text(PROGRAMS["roll and flip"], X)
    assert "%t" not in text(PROGRAMS["pad"], X)


def test_a_border_is_written_without_what_is_inside() -> None:
    found = text(lambda x: jnp.pad(x, 3), X)
    assert f"< {206 * 156}" not in found
    assert "< 200, i1 < 3" in found


def test_reversed_elements_are_read_as_they_lie() -> None:
    with override(engine="native"):
        assembly = kiln.jit(PROGRAMS["reversed"]).lower(X).as_text("llvm")
    assert "masked.gather" not in assembly
