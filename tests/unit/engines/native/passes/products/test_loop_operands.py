"""Matrices that a loop multiplies by transposed, and those that change in it."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.base.options.config import override
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.products.loop_operands import transpose_matrices

TEXT = """
function f(%i0: f32[96], %i1: f32[96]) -> (%o2: f32[48]) {
  temp %t3: f32[96]
  %t3[0] = copy(%i0[0]) [96]
  loop t < 12 {
    %o2[0] = kiln_gemm_f32(%t3[0], %i1[0]) [1, 4, 12, 8, 0, 1, 0, 0, 48, 0]
    nest i0 < 96 {
      v0: f32 = %i1[i0]
      v1: f32 = sqrt v0
      %t3[i0] = v1
    }
  }
}
"""


def transposed(text: str) -> str:
    """Return loops after the pass."""
    function = parse(text)
    check(function, "text")
    transpose_matrices(function)
    check(function, "matrices")
    return to_text(function).strip()


def test_a_matrix_is_transposed_once() -> None:
    found = transposed(TEXT)
    before, loop = found.split("  loop ")
    assert "kiln_transpose(%i1[0]) [2, 2, 12, 8, 1, 0]" in before
    assert "[1, 4, 12, 8, 0, 0, 0, 0, 48, 0]" in loop


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%t3[0], %i1[0]", "%i0[0], %t3[0]"),  # the loop writes it
        ("%i1[0]) [1", "%i1[t*8]) [1"),  # another one in each iteration
        ("loop t < 12", "loop t < 7"),
        ("[1, 4, 12, 8, 0, 1", "[1, 4, 12, 8, 0, 0"),
        ("[1, 4, 12, 8, 0, 1", "[1, 1, 12, 8, 0, 1"),
    ],
)
def test_what_stays(old: str, new: str) -> None:
    text = TEXT.replace(old, new).replace("%i1: f32[96]", "%i1: f32[192]")
    assert text != TEXT
    assert transposed(text) == text.strip()


def test_many_rows_stay() -> None:
    text = TEXT.replace("[1, 4, 12, 8, 0, 1, 0, 0, 48, 0]", "[1, 65, 12, 8, 0, 1, 0, 0, 780, 0]")
    text = text.replace("f32[48]", "f32[780]").replace("%t3: f32[96]", "%t3: f32[520]")
    assert transposed(text) == text.strip()


def test_parts_of_a_matrix_are_transposed_apart() -> None:
    rng = np.random.default_rng(0)
    w, h = rng.random((40, 24), np.float32) * 0.1 - 0.05, rng.random((5, 24), np.float32)

    def f(w: object, h: object) -> object:
        body = lambda h, _: (kiln.numpy.tanh(h @ w.T)[:, :24] + h @ w[:24].T, None)
        return lax.scan(body, h, None, length=9)[0]

    with override(engine="reference"):
        expected = np.asarray(kiln.jit(f)(w, h))
    with override(engine="native"):
        compiled = kiln.jit(lambda w, h: f(w, h)).lower(w, h).compile()
    before, loop = str(compiled.as_text("loops")).split("  loop ")
    assert before.count("kiln_transpose") == 2
    assert loop.count("kiln_gemm_f32") == 2
    assert "kiln_transpose" not in loop
    np.testing.assert_allclose(compiled(w, h), expected, rtol=1e-5, atol=1e-5)
