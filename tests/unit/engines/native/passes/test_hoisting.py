"""Which statements of loops are computed once: before the loop, by its first iteration, or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln.numpy as jnp
from kiln import lax
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes import invariants
from kiln.engines.native.passes.invariants import hoist
from tests.unit.engines.native.passes.agreement import agree, numbers

HEAD = """function f(%i0: f32[16], %i1: i1[1]) -> (%o2: f32[16]) {
  temp %t3: f32[16]
  temp %t4: f32[16]
  temp %t5: i1[1]
  temp %t6: i32[1]
  temp %t7: f32[48]
"""
KERNEL = "%t3[0] = cumulative(%i0[0]) [0, 1, 16, 1, 0, 0, 11]\n"
START = "nest i0 < 16 {\nv0: f32 = %i0[i0]\n%o2[i0] = v0\n}\n"
STEP = (
    "nest i0 < 16 {\nv0: f32 = %o2[i0]\nv1: f32 = %t3[i0]\nv2: f32 = add v0 v1\n%o2[i0] = v2\n}\n"
)
SUM = "nest i0 < 16 {\nv0: f32 = %i0[i0]\n%t4[0] = add v0\n}\n"
STEP_OF_SUM = STEP.replace("%t3[i0]", "%t4[0]")
FLAG = "nest {\nv0: f32 = %o2[0]\nv1: i1 = lt v0 100.0:f32\n%t5[0] = v1\n}\n"


def done(number: int) -> str:
    """Return the nest that records whether the first iteration has run."""
    return f"nest {{\n%t6[0] = {number}:i32\n}}\n"


def loop(body: str, axis: str = "t0") -> str:
    """Return a loop of three iterations."""
    return f"loop {axis} < 3 {{\n{body}}}\n"


def whiles(body: str, condition: str = FLAG) -> str:
    """Return a loop with a condition."""
    return f"while %t5 {{\n{condition}}} do {{\n{body}}}\n"


def once(taken: str) -> str:
    """Return what the first iteration of a loop does before its body."""
    return f"branch %t6[0] {{\n{taken}{done(1)}}} else {{\n}}\n"


def becomes(before: str, after: str) -> None:
    """Compare what the pass makes of a body with another body."""
    function = parse(f"{HEAD}{before}}}")
    check(function, "the text")
    hoist(function)
    check(function, "hoisting")
    assert to_text(function) == to_text(parse(f"{HEAD}{after}}}"))


def stays(text: str) -> None:
    """Check that the pass leaves a body alone."""
    becomes(text, text)


def test_a_kernel_runs_before_a_counted_loop() -> None:
    becomes(START + loop(KERNEL + STEP), START + KERNEL + loop(STEP))


@pytest.mark.parametrize(
    "kernel",
    [
        KERNEL.replace("%i0", "%o2"),
        KERNEL.replace("cumulative", "kiln_draw_counters"),
        KERNEL.replace("%t3", "%o2"),
        KERNEL.replace("%i0[0]", "%t7[t0*16]"),
        "v0: i64 = index t0\n" + KERNEL.replace("%i0[0]", "%t7[v0]"),
        KERNEL.replace("%t3[0]", "%t7[t0*16]"),
    ],
    ids=["carry", "side effect", "result", "axis", "value of the axis", "row"],
)
def test_what_changes_stays(kernel: str) -> None:
    fill = "nest i7 < 48 {\n%t7[i7] = 0.0:f32\n}\n"
    last = "nest {\nv0: f32 = %t7[40]\n%o2[3] = v0\n}\n" if "%t7" in kernel else ""
    fill = fill if "(%t7" in kernel else ""
    start = "" if "%t3[0]" in kernel else "nest i0 < 16 {\n%t3[i0] = 0.0:f32\n}\n"
    stays(START + start + fill + loop(kernel + STEP) + last)


HALVES = "".join(
    f"nest i1 < 8 {{\nv0: f32 = %i0[i1 + {8 - start}]\n%t3[i1 + {start}] = v0\n}}\n"
    for start in (0, 8)
)
OF_HALVES = KERNEL.replace("%i0", "%t3").replace("%t3[0] =", "%t4[0] =")


def test_values_that_are_written_in_parts() -> None:
    step = STEP.replace("%t3", "%t4")
    becomes(START + loop(HALVES + OF_HALVES + step), START + HALVES + OF_HALVES + loop(step))
    # A part that changes, or that is written elsewhere.
    stays(START + loop(HALVES.replace("%i0[i1 + 0]", "%o2[i1]") + OF_HALVES + step))
    outside = HALVES.split("}\n")[0] + "}\n"
    stays(START + outside + loop(HALVES + OF_HALVES + step))


def test_a_part_that_is_read_before_the_others_are_written() -> None:
    fill = "nest i0 < 16 {\n%t3[i0] = 0.0:f32\n}\n"
    half = HALVES.split("}\n")[1] + "}\n"
    later = OF_HALVES + STEP.replace("%t3", "%t4")
    stays(START + loop(fill + STEP + half + later))
    stays(START + loop(fill + loop(STEP, "t1") + half + later))
    becomes(
        START + loop(fill + half + STEP + later),
        START + fill + half + OF_HALVES + loop(STEP + STEP.replace("%t3", "%t4")),
    )


def test_conditions_run_at_least_once() -> None:
    condition = KERNEL + FLAG.replace("%o2[0]", "%t3[0]")
    becomes(
        START + whiles(START, condition),
        START + KERNEL + whiles(START, FLAG.replace("%o2[0]", "%t3[0]")),
    )
    changing = KERNEL.replace("%i0", "%o2")
    stays(START + whiles(STEP, changing + FLAG.replace("%o2[0]", "%t3[0]")))


def test_the_first_iteration_runs_what_may_not_be_needed() -> None:
    becomes(START + whiles(KERNEL + STEP), START + done(0) + whiles(once(KERNEL) + STEP))
    stays(START + whiles(KERNEL.replace("%i0", "%o2") + STEP))
    # Again in each iteration of a loop around it.
    changing = KERNEL.replace("%i0", "%t4")
    row = START.replace("%i0[i0]", "%o2[i0]").replace("%o2[i0] = v0", "%t4[i0] = v0")
    becomes(
        START + loop(row + whiles(changing + STEP)),
        START + loop(row + done(0) + whiles(once(changing) + STEP)),
    )


def test_small_sums_are_computed_before_a_loop_that_may_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = START + whiles(SUM + STEP_OF_SUM)
    becomes(text, START + SUM + whiles(STEP_OF_SUM))
    monkeypatch.setattr(invariants, "MOST_WASTED", 15)
    becomes(text, START + done(0) + whiles(once(SUM) + STEP_OF_SUM))


def test_no_check_fails_in_a_loop_that_does_not_run() -> None:
    checked = SUM.replace("%t4[0] = add v0", "v1: f32 = checked#1 v0\n%t4[0] = add v1")
    stays(START + whiles(checked + STEP_OF_SUM))
    becomes(START + loop(checked + STEP_OF_SUM), START + checked + loop(STEP_OF_SUM))


def test_arms_keep_what_they_compute() -> None:
    text = START + done(0) + loop("branch %t6[0] {\n" + KERNEL + STEP + "} else {\n}\n")
    stays(text)


def test_loops_that_do_not_run_and_others_agree_with_the_meaning() -> None:
    def powers(n: Any, m: Any, x: Any) -> Any:
        def turn(carry: Any) -> Any:
            i, y = carry
            both = jnp.concatenate([m[2:], m[:2]]) @ m
            return i + 1, (y @ (both % 5) + jnp.cumsum(x)) % 7

        goes_on = lambda carry: (carry[0] < n) & (jnp.sort(x)[0] < 100)
        return lax.while_loop(goes_on, turn, (0, x))

    def nested(n: Any, m: Any, x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, y: powers(n - i, m, y + i)[1], x)

    calls = [(np.int32(n), numbers(6, 6), numbers(6, seed=n)) for n in (0, 1, 4)]
    agree(powers, *calls)
    agree(nested, *calls)
