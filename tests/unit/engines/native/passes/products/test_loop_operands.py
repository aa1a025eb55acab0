"""Matrices that a loop multiplies by, packed before it, and those that change in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.base.options.config import override
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.products.loop_operands import pack_matrices

TEXT = """
function f(%i0: f32[1200], %i1: f32[1200]) -> (%o2: f32[160]) {
  temp %t3: f32[1200]
  %t3[0] = copy(%i0[0]) [1200]
  loop t < 12 {
    %o2[0] = kiln_gemm_f32(%t3[0], %i1[0]) [1, 4, 40, 30, 0, 1, 0, 0, 160, 0]
    nest i0 < 1200 {
      v0: f32 = %i1[i0]
      v1: f32 = sqrt v0
      %t3[i0] = v1
    }
  }
}
"""
NUMBERS = "[1, 4, 40, 30, 0, 1, 0, 0, 160, 0]"


def packed(text: str) -> str:
    """Return loops after the pass."""
    function = parse(text)
    check(function, "text")
    pack_matrices(function)
    check(function, "matrices")
    return to_text(function).strip()


def test_a_matrix_is_packed_once() -> None:
    before, loop = packed(TEXT).split("  loop ")
    assert "temp %t4: f32[1920]" in before
    assert "%t4[0] = kiln_gemm_pack_f32(%i1[0]) [40, 30, 1]" in before
    assert "kiln_gemm_f32(%t3[0], %t4[0]) [1, 4, 40, 30, 0, 1, 0, 0, 160, 12]" in loop


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%t3[0], %i1[0]", "%i0[0], %t3[0]"),  # the loop writes it
        ("%i1[0]) [1", "%i1[t*8]) [1"),  # another one in each iteration
        ("loop t < 12", "loop t < 7"),
        ("[1, 4, 40, 30, 0, 1", "[1, 4, 40, 30, 0, 0"),  # small: as fast in place
        (NUMBERS, "[1, 1, 40, 30, 0, 1, 0, 0, 40, 0]"),
        ("40, 30, 0, 1, 0, 0, 160, 0]", "40, 30, 0, 1, 0, 0, 160, 1]"),
        (NUMBERS, "[1, 4, 40, 25, 0, 1, 0, 0, 160, 0]"),
        (NUMBERS, "[1, 4, 7, 160, 0, 1, 0, 0, 28, 0]"),
        (NUMBERS, "[1, 40, 400, 3, 0, 1, 0, 0, 16000, 0]"),
        (NUMBERS, "[2, 4, 20, 30, 0, 1, 120, 600, 80, 0]"),  # a matrix for each item
    ],
)
def test_what_stays(old: str, new: str) -> None:
    text = TEXT.replace(old, new).replace("%i1: f32[1200]", "%i1: f32[2400]")
    text = text.replace("%o2: f32[160]", "%o2: f32[16000]")
    assert text != TEXT
    assert packed(text) == text.strip()


def test_many_rows_stay() -> None:
    numbers = "[1, 257, 40, 30, 0, 1, 0, 0, 10280, 0]"
    text = TEXT.replace(NUMBERS, numbers).replace("f32[160]", "f32[10280]")
    text = text.replace("%t3: f32[1200]", "%t3: f32[7710]")
    assert packed(text) == text.strip()


@pytest.mark.parametrize(
    ("rows", "columns", "is_packed"),
    [(9, 768, False), (10, 768, True), (10, 512, False), (2, 1024, False), (2, 1400, True)],
)
def test_row_major_matrices_are_packed_by_size(rows: int, columns: int, is_packed: bool) -> None:
    numbers = f"[1, {rows}, {columns}, 192, 0, 0, 0, 0, {rows * columns}, 0]"
    text = TEXT.replace(NUMBERS, numbers).replace("f32[160]", f"f32[{rows * columns}]")
    text = text.replace("%i1: f32[1200]", f"%i1: f32[{192 * columns}]")
    text = text.replace("%t3: f32[1200]", f"%t3: f32[{192 * rows + 1200}]")
    assert ("kiln_gemm_pack_f32" in packed(text)) == is_packed


def test_a_matrix_is_packed_before_the_outermost_loop() -> None:
    head, rest = TEXT.split("  loop t", 1)
    text = f"{head}  loop s < 9 {{\n  loop t{rest.rstrip()[:-1]}}}\n}}"
    before, loop = packed(text).split("  loop s")
    assert "kiln_gemm_pack_f32" in before
    assert "kiln_gemm_pack_f32" not in loop


def results(f: Any, *args: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return what a function computes with and without the pass, as bits."""
    with override(engine="native"):
        compiled = kiln.jit(f).lower(*args).compile()
        assert "kiln_gemm_pack_" in compiled.as_text("loops").split("  loop ")[0]
        assert "kiln_gemm_pack_" not in compiled.as_text("loops").split("  loop ", 1)[1]
        # A loop without products of one matrix.
        h, wanted = args[-1], []
        step = kiln.jit(lambda w, h: f(w, h, length=1))
        for _ in range(9):
            h = step(*args[:-1], h)
            wanted.append(h)
        return np.asarray(compiled(*args)), np.asarray(wanted[-1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [2, 5, 33])
def test_bits_are_those_of_the_product(dtype: Any, rows: int) -> None:
    rng = np.random.default_rng(0)
    w, h = rng.random((45, 45)).astype(dtype) - 0.5, rng.random((rows, 45)).astype(dtype)

    def f(w: Any, h: Any, length: int = 9) -> Any:
        return lax.scan(lambda h, _: (kiln.numpy.tanh(h @ w.T), None), h, None, length=length)[0]

    with kiln.enable_x64():
        found, wanted = results(f, w, h)
    np.testing.assert_array_equal(found, wanted)


def test_parts_of_a_matrix_are_packed_apart() -> None:
    rng = np.random.default_rng(0)
    w, h = rng.random((60, 44), np.float32) * 0.1 - 0.05, rng.random((5, 44), np.float32)

    def f(w: object, h: object) -> object:
        body = lambda h, _: (kiln.numpy.tanh(h @ w.T)[:, :44] + h @ w[:44].T, None)
        return lax.scan(body, h, None, length=9)[0]

    with override(engine="reference"):
        expected = np.asarray(kiln.jit(f)(w, h))
    with override(engine="native"):
        compiled = kiln.jit(lambda w, h: f(w, h)).lower(w, h).compile()
    before, loop = str(compiled.as_text("loops")).split("  loop ")
    assert before.count("kiln_gemm_pack_f32") == 2
    assert loop.count("kiln_gemm_f32") == 2
    assert "kiln_gemm_pack" not in loop
    np.testing.assert_allclose(compiled(w, h), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "width"), [(16, 192), (33, 190), (100, 192)])
def test_bits_of_shared_rows_do_not_depend_on_threads(rows: int, width: int) -> None:
    rng = np.random.default_rng(0)
    w, h = rng.random((width, 4 * width), np.float32) - 0.5, rng.random((rows, width), np.float32)

    def f(w: Any, h: Any) -> Any:
        def step(h: Any, _: None) -> tuple[Any, None]:
            gates = h @ w
            i, f, g, o = (gates[:, n * width : (n + 1) * width] for n in range(4))
            return kiln.nn.sigmoid(i) * kiln.numpy.tanh(g) + kiln.nn.sigmoid(f) * o / 50, None

        return lax.scan(step, h, None, length=9)[0]

    with override(engine="native"):
        compiled = kiln.jit(f).lower(w, h).compile()
    module = str(compiled.as_text("llvm"))
    share = {16: 4, 33: 5, 100: 7}[rows]
    assert f"i64 {rows}, i64 {share})" in module, "all threads compute gates, of equal shares"
    found = []
    for threads in (1, 2, 3):
        with kiln.num_threads(threads):
            found.append(np.asarray(compiled(w, h)))
    expected = h.astype("f8")
    for _ in range(9):
        i, f_, g, o = np.split(expected @ w.astype("f8"), 4, axis=1)
        expected = np.tanh(g) / (1 + np.exp(-i)) + o / 50 / (1 + np.exp(-f_))
    np.testing.assert_allclose(found[0], expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
