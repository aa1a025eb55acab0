"""What depends on the first inputs alone moves to a function that runs once."""

from __future__ import annotations

import pytest

from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.products import constants
from kiln.engines.native.passes.products.constants import divided

PRODUCT = """
function f(%i0: f32[1200], %i1: f32[120]) -> (%o2: f32[160]) {
  %o2[0] = kiln_gemm_f32(%i1[0], %i0[0]) [1, 4, 40, 30, 0, 1, 0, 0, 160, 0]
}
"""
PROLOGUE = """
function f_constants(%i0: f32[1200]) -> (%o1: f32[1920]) {
  %o1[0] = kiln_gemm_pack_f32(%i0[0]) [40, 30, 1]
}
"""
MAIN = """
function f(%i0: f32[1200], %i1: f32[120], %i2: f32[1920]) -> (%o3: f32[160]) {
  %o3[0] = kiln_gemm_f32(%i1[0], %i2[0]) [1, 4, 40, 30, 0, 1, 0, 0, 160, 4]
}
"""


def parts(text: str, count: int = 1) -> tuple[str, str]:
    """Return the prologue and the function, with `count` constants; both are valid."""
    function = parse(text)
    check(function, "text")
    prologue = divided(function, count)
    check(function, "constants")
    if prologue is None:
        return "", to_text(function).strip()
    check(prologue, "constants")
    return to_text(prologue).strip(), to_text(function).strip()


def test_a_constant_matrix_is_packed() -> None:
    assert parts(PRODUCT) == (PROLOGUE.strip(), MAIN.strip())


CONVOLUTION = """
function f(%i0: f32[2304], %i1: f32[4096]) -> (%o2: f32[8192]) {
  %o2[0] = kiln_conv_f32(%i1[0], %i0[0]) [NUMBERS]
}
"""
NUMBERS = "2, 1, 1, 1, 16, 16, 16, 32, 8, 3, 3, 1, 16, 16, 32, "
NUMBERS += "0, 3, 1, 2, 0, 1, 2, 3, 0, 3, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1"


def test_a_constant_kernel_is_packed() -> None:
    before, main = parts(CONVOLUTION.replace("NUMBERS", NUMBERS))
    # Only what matters for the kernel.
    shapes = "2, 1, 1, 1, 1, 1, 1, 32, 8, 3, 3, 1, 1, 1, 1, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3"
    assert f"%o1[0] = kiln_conv_pack_f32(%i0[0]) [{shapes}, 1, 0, 1, 1, 1, 0, 1, 1]" in before
    assert f"%o3[0] = kiln_conv_packed_f32(%i1[0], %i2[0]) [{NUMBERS}]" in main
    other = NUMBERS.replace("2, 1, 1, 1, 16", "2, 2, 1, 1, 16", 1)
    assert parts(CONVOLUTION.replace("NUMBERS", other))[0] == ""


def test_inputs_are_not_constants() -> None:
    assert parts(PRODUCT, 0) == ("", PRODUCT.strip())
    swapped = PRODUCT.replace("%i0: f32[1200], %i1: f32[120]", "%i1: f32[120], %i0: f32[1200]")
    assert parts(swapped)[0] == ""


def test_a_product_in_a_loop_reads_panels_that_are_made_once() -> None:
    text = PRODUCT.replace("  %o2", "  loop t < 3 {\n  loop s < 2 {\n  %o2").replace(
        "]\n}", "]\n  }\n  }\n}"
    )
    before, main = parts(text)
    assert before == PROLOGUE.strip()
    assert "kiln_gemm_pack" not in main


def test_panels_that_a_loop_has_are_made_once() -> None:
    text = PRODUCT.replace(
        "  %o2[0]",
        "  temp %t3: f32[1920]\n  loop t < 3 {\n"
        "  %t3[0] = kiln_gemm_pack_f32(%i0[0]) [40, 30, 1]\n  %o2[0]",
    )
    text = text.replace("%i1[0], %i0[0]", "%i1[0], %t3[0]").replace("160, 0]\n}", "160, 4]\n  }\n}")
    before, main = parts(text)
    assert before == PROLOGUE.strip()
    assert "kiln_gemm_pack" not in main


def test_two_products_share_panels() -> None:
    product = PRODUCT.splitlines()[2]
    both = PRODUCT.replace(product, f"{product}\n{product.replace('o2', 't3')}")
    both = both.replace("{\n", "{\n  temp %t3: f32[160]\n")
    before, main = parts(both)
    assert before == PROLOGUE.strip()
    assert main.count("%i2[0]") == 2


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "MOST_BYTES", 4799)
    assert parts(PRODUCT) == ("", PRODUCT.strip())
    monkeypatch.setattr(constants, "MOST_BYTES", 4800)
    assert parts(PRODUCT)[0] == PROLOGUE.strip()


NEST = """
function f(%i0: f32[8], %i1: f32[8]) -> (%o2: f32[8]) {
  temp %t3: f32[8]
  nest i0 < 8 {
    v0: f32 = %i0[i0]
    v1: f32 = sqrt v0
    %t3[i0] = v1
  }
  nest i0_1 < 8 {
    v0: f32 = %i1[i0_1]
    v1: f32 = %t3[i0_1]
    v2: f32 = mul v0 v1
    %o2[i0_1] = v2
  }
}
"""


def test_nests_of_constants_are_computed_once() -> None:
    before, main = parts(NEST)
    assert "sqrt" in before
    assert "sqrt" not in main
    assert "%i2: f32[8]" in main


def test_a_buffer_that_a_nest_writes_twice_is_one_input() -> None:
    text = NEST.replace("%t3[i0] = v1", "%t3[i0*2] = v1\n    %t3[i0*2 + 1] = v0")
    text = text.replace("nest i0 <", "nest i0 < 4 {\n").replace("< 4 {\n 8 {", "< 4 {")
    before, main = parts(text)
    assert "-> (%o1: f32[8])" in before
    assert main.startswith("function f(%i0: f32[8], %i1: f32[8], %i2: f32[8]) ->")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # It takes more memory than what it comes from.
        ("%i0: f32[8]", "%i0: f32[4]"),
        # Its buffer is written again.
        ("  nest i0_1", "  %t3[0] = copy(%i1[0]) [1]\n  nest i0_1"),
        # It is a result.
        ("%t3[i0] = v1", "%t3[i0] = v1\n    %o2[i0] = v1"),
        # It depends on another input.
        ("v1: f32 = sqrt v0", "v2: f32 = %i1[i0]\n    v1: f32 = mul v0 v2"),
        # It has nothing to read.
        ("v0: f32 = %i0[i0]\n    v1: f32 = sqrt v0\n    %t3[i0] = v1", "%t3[i0] = 0.0:f32"),
    ],
)
def test_what_stays(old: str, new: str) -> None:
    text = NEST.replace(old, new)
    assert text != NEST
    if "f32[4]" in new:
        text = text.replace("%i0[i0]", "%i0[0]")
    assert parts(text)[0] == ""


def test_chains_of_constants_are_kept_at_their_end() -> None:
    more = """  nest i0_2 < 8 {
    v0: f32 = %t3[i0_2]
    v1: f32 = exp v0
    %t4[i0_2] = v1
  }
  nest i0_1"""
    text = NEST.replace("  nest i0_1", more, 1).replace(
        "v1: f32 = %t3[i0_1]", "v1: f32 = %t4[i0_1]"
    )
    text = text.replace("  temp %t3: f32[8]\n", "  temp %t3: f32[8]\n  temp %t4: f32[8]\n")
    before, main = parts(text)
    assert "-> (%o1: f32[8])" in before
    assert "exp" in before
    assert "exp" not in main
