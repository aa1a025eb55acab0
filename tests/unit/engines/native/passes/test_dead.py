"""What no buffer needs is dropped, and what one arm of a branch needs is computed there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln.numpy as jnp
from kiln import lax
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes import dead
from kiln.engines.native.passes.dead import drop_unread, sink
from tests.unit.engines.native.passes.agreement import agree, numbers

HEAD = """function f(%i0: f32[16], %i1: i32[1]) -> (%o2: f32[16]) {
  temp %t3: f32[16]
  temp %t4: f32[16]
  temp %t5: f32[16]
"""
DEAR = "%t3[0] = cumulative(%i0[0]) [0, 1, 16, 1, 0, 0, 11]\n"
FINE = "nest i0 < 16 {\nv0: f32 = %t3[i0]\nv1: f32 = exp v0\n%o2[i0] = v1\n}\n"
OTHER = "nest i0 < 16 {\nv0: f32 = %i0[i0]\n%o2[i0] = v0\n}\n"


def branch(first: str, second: str, number: str = "%i1[0]") -> str:
    """Return a branch of two arms."""
    return f"branch {number} {{\n{first}}} else {{\n{second}}}\n"


def becomes(run: Any, before: str, after: str) -> None:
    """Compare what a pass makes of a body with another body."""
    function = parse(f"{HEAD}{before}}}")
    check(function, "the text")
    run(function)
    check(function, "the pass")
    assert to_text(function) == to_text(parse(f"{HEAD}{after}}}"))


def stays(run: Any, text: str) -> None:
    """Check that a pass leaves a body alone."""
    becomes(run, text, text)


# Dead code.


def test_kernels_and_copies_that_nothing_reads_are_dropped() -> None:
    chain = "%t4[0] = copy(%t3[0]) [16]\n" + FINE.replace("%t3", "%t4").replace("%o2", "%t5")
    becomes(drop_unread, DEAR + chain + OTHER, OTHER)
    stays(drop_unread, DEAR + FINE)


def test_side_effects_stay_with_what_they_need() -> None:
    stays(drop_unread, DEAR + "%t4[0] = kiln_call_python(%t3[0]) [0]\n" + OTHER)


def test_a_kernel_with_one_needed_result_stays() -> None:
    two = "%t3[0], %t4[0] = top_k(%i0[0]) [0, 1, 16, 1, 16, 11]\n"
    stays(drop_unread, two + FINE)
    becomes(drop_unread, two + OTHER, OTHER)


def test_loops_and_branches_that_become_empty_are_dropped() -> None:
    loop = f"loop t0 < 3 {{\n{DEAR}}}\n"
    becomes(drop_unread, loop + branch(DEAR, "") + OTHER, OTHER)
    stays(drop_unread, branch(OTHER, ""))


# Partly dead code.


def test_what_one_arm_reads_is_computed_there() -> None:
    becomes(sink, DEAR + branch(FINE, OTHER), branch(DEAR + FINE, OTHER))
    becomes(sink, DEAR + branch(OTHER, FINE), branch(OTHER, DEAR + FINE))


def test_with_all_that_it_needs() -> None:
    second = "%t4[0] = cumulative(%t3[0]) [0, 1, 16, 1, 0, 0, 11]\n"
    arm = FINE.replace("%t3", "%t4")
    becomes(sink, DEAR + second + branch(arm, OTHER), branch(DEAR + second + arm, OTHER))
    # The first is needed elsewhere too.
    stays(sink, DEAR + FINE + branch(FINE, FINE))
    becomes(
        sink,
        DEAR + FINE + second + branch(arm, OTHER),
        DEAR + FINE + branch(second + arm, OTHER),
    )


@pytest.mark.parametrize(
    "text",
    [
        DEAR + branch(FINE, FINE),
        DEAR + branch(FINE, OTHER) + FINE,
        DEAR.replace("%t3", "%o2") + branch(OTHER, ""),
        DEAR.replace("cumulative", "kiln_draw_counters") + branch(FINE, OTHER),
        DEAR + DEAR + branch(FINE, OTHER),
        DEAR + "loop t0 < 3 {\n" + branch(FINE, OTHER) + "}\n",
    ],
    ids=["both arms", "later", "result", "side effect", "two writers", "loop"],
)
def test_what_others_need_stays(text: str) -> None:
    stays(sink, text)


def test_what_a_later_statement_overwrites_is_read_before() -> None:
    start = OTHER.replace("%o2", "%t4")
    reads = DEAR.replace("%i0", "%t4")
    change = FINE.replace("%t3", "%t4").replace("%o2", "%t4")
    stays(sink, start + reads + change + branch(FINE, FINE.replace("%t3", "%t4")))
    inner = f"loop t0 < 3 {{\n{change}}}\n"
    stays(sink, start + reads + inner + branch(FINE, FINE.replace("%t3", "%t4")))


def test_branches_in_arms_and_in_turn() -> None:
    inner = branch(FINE, OTHER)
    becomes(
        sink,
        DEAR + branch(inner, OTHER),
        branch(branch(DEAR + FINE, OTHER), OTHER),
    )
    second = DEAR.replace("%t3", "%t5")
    arm = FINE.replace("%t3", "%t5")
    becomes(
        sink,
        DEAR + second + branch(FINE, OTHER) + branch(arm, OTHER),
        branch(DEAR + FINE, OTHER) + branch(second + arm, OTHER),
    )


def test_the_number_of_a_branch_is_computed_before_it() -> None:
    number = "%t6[0] = argument(%i0[0]) [0]\n"
    text = (
        f"{HEAD}  temp %t6: i32[1]\n{number}{branch(FINE.replace('%t3', '%i0'), OTHER, '%t6[0]')}}}"
    )
    function = parse(text)
    sink(function)
    assert to_text(function) == to_text(parse(text))


def test_operands_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """%t4 is dead after the sum of it, unless that is computed in the arm."""
    start = OTHER.replace("%o2", "%t4")
    first = FINE.replace("%t3", "%t4")
    total = "nest i0 < 16 {\nv0: f32 = %t4[i0]\n%t3[0] = add v0\n}\n"
    arm = "nest {\nv0: f32 = %t3[0]\n%o2[0] = v0\n}\n"
    before, after = start + first + total + branch(arm, ""), start + first + branch(total + arm, "")
    becomes(sink, before, after)
    monkeypatch.setattr(dead, "KEPT", -1)
    stays(sink, before)


def test_checks_happen_although_no_arm_reads_the_value() -> None:
    checked = "nest i0 < 16 {\nv0: f32 = %i0[i0]\nv1: f32 = checked#1 v0\n%t3[i0] = v1\n}\n"
    function = parse(f"{HEAD}{checked}{branch(FINE, OTHER)}}}")
    before = to_text(function)
    sink(function)
    assert to_text(function) == before


def test_both_sides_agree_with_the_meaning() -> None:
    def branches(n: Any, x: Any) -> Any:
        y, z = jnp.sort(x) * 2, jnp.cumsum(x)
        w = jnp.cumsum(z[::-1]) + 1

        def inner() -> Any:
            return lax.cond(n > 5, lambda: w[:3], lambda: y[3:6] + z[0])

        first = lax.cond(n > 2, inner, lambda: x[:3])
        return first, lax.cond(n % 2 == 0, lambda: y, lambda: x), z

    agree(branches, *[(np.int32(n), numbers(40, seed=n)) for n in (0, 3, 6, 7)])
