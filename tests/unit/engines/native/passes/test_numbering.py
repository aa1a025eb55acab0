"""Which statements compute what another buffer holds already, and which only look alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.statements import Function, Kernel, walk
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes import numbering
from kiln.engines.native.passes.numbering import number_values
from kiln.engines.native.passes.workspace import workspace
from tests.unit.engines.native.passes.agreement import agree, numbers

KERNEL = "%r = kiln_gemm_f32(%a[0], %i1[0]) [1, 4, 4, 4, 0, 0, 0, 0, 16, 0]"


def product(result: str, operand: str) -> str:
    """Return a kernel that multiplies an operand by %i1."""
    return KERNEL.replace("%r", f"{result}[0]").replace("%a", operand)


def nest(result: str, value: str, *operands: str) -> str:
    """Return a nest that computes 16 elements from those of operands."""
    lines = [f"v{i}: f32 = {x}[i0]" for i, x in enumerate(operands)]
    n = len(operands)
    return "\n".join(
        ["nest i0 < 16 {", *lines, f"v{n}: f32 = {value}", f"{result}[i0] = v{n}", "}"]
    )


def program(*statements: str, outputs: str = "%o2: f32[16]") -> str:
    """Return a program of matrices of four rows, with ten temporaries."""
    temps = [f"temp %t{i}: f32[16]" for i in range(3, 13)]
    inputs = "%i0: f32[16], %i1: f32[16], %i9: i32[1]"
    head = f"function f({inputs}) -> ({outputs}) {{"
    return "\n".join([head, *temps, *statements, "}"])


def numbered(text: str) -> Function:
    """Return a function after the pass, which leaves it valid."""
    function = parse(text)
    check(function, "the text")
    number_values(function)
    check(function, "numbering")
    return function


def kernels(function: Function) -> list[Kernel]:
    """Return the kernels of a function."""
    return [x for x in walk(function.body) if isinstance(x, Kernel)]


def becomes(before: str, after: str) -> None:
    """Compare what the pass makes of a text with another text."""
    assert to_text(numbered(before)) == to_text(parse(after))


def stays(text: str) -> None:
    """Check that the pass leaves a text alone."""
    becomes(text, text)


TWICE = (product("%t3", "%i0"), product("%t4", "%i0"))


def test_a_kernel_runs_once() -> None:
    becomes(
        program(*TWICE, nest("%o2", "add v0 v1", "%t3", "%t4")),
        program(
            TWICE[0], "nest i0 < 16 {\nv0: f32 = %t3[i0]\nv1: f32 = add v0 v0\n%o2[i0] = v1\n}"
        ),
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%i0[0]", "%i1[0]"),
        ("[1, 4, 4, 4, 0,", "[1, 4, 4, 4, 1,"),
        ("gemm_f32", "syrk_f32"),
    ],
    ids=["operand", "number", "symbol"],
)
def test_kernels_that_differ_both_run(old: str, new: str) -> None:
    text = program(TWICE[0], TWICE[1].replace(old, new), nest("%o2", "add v0 v1", "%t3", "%t4"))
    assert new in text
    stays(text)


@pytest.mark.parametrize("symbol", ["kiln_call_python", "kiln_draw_counters"])
def test_side_effects_happen_twice(symbol: str) -> None:
    calls = [text.replace("kiln_gemm_f32", symbol) for text in TWICE]
    stays(program(*calls, nest("%o2", "add v0 v1", "%t3", "%t4")))


def test_what_is_computed_from_equal_values_is_equal() -> None:
    becomes(
        program(
            *TWICE,
            nest("%t5", "exp v0", "%t3"),
            nest("%t6", "exp v0", "%t4"),
            product("%t7", "%t5"),
            product("%t8", "%t6"),
            nest("%o2", "sub v0 v1", "%t7", "%t8"),
        ),
        program(
            TWICE[0],
            nest("%t5", "exp v0", "%t3"),
            product("%t7", "%t5"),
            "nest i0 < 16 {\nv0: f32 = %t7[i0]\nv1: f32 = sub v0 v0\n%o2[i0] = v1\n}",
        ),
    )


def test_cheap_values_are_computed_where_nests_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    text = program(
        nest("%t3", "neg v0", "%i0"),
        nest("%t4", "neg v0", "%i0"),
        product("%t5", "%t3"),
        product("%t6", "%t4"),
        nest("%o2", "add v0 v1", "%t4", "%t6"),
    )
    assert len(kernels(numbered(text))) == 1
    assert len(numbered(text).body) == 4
    monkeypatch.setattr(numbering, "POINTS", 16)
    assert len(numbered(text).body) == 4
    monkeypatch.setattr(numbering, "DEAR", 1)
    assert len(numbered(text).body) == 3


def halves(to: str, of: tuple[str, str]) -> list[str]:
    """Return the nests of a concatenation of two halves."""
    return [
        f"nest i1 < 8 {{\nv0: f32 = {x}[i1]\n{to}[i1 + {8 * i}] = v0\n}}" for i, x in enumerate(of)
    ]


@pytest.mark.parametrize("of", [("%i0", "%i1"), ("%i1", "%i0"), ("%i0", "%i0")])
def test_values_that_are_written_in_parts(of: tuple[str, str]) -> None:
    products = [product("%t5", "%t3"), product("%t6", "%t4")]
    text = program(
        *halves("%t3", ("%i0", "%i1")), *halves("%t4", of), *products,
        nest("%o2", "add v0 v1", "%t5", "%t6"),
    )  # fmt: skip
    assert len(kernels(numbered(text))) == (1 if of == ("%i0", "%i1") else 2)


def test_overlapping_parts_in_another_order_differ() -> None:
    first, second = (
        "nest i2 < 9 {\nv0: f32 = %i0[i2]\n%T[i2] = v0\n}",
        halves("%T", ("%i1",) * 2)[1],
    )
    parts = [x.replace("%T", "%t3") for x in (first, second)]
    parts += [x.replace("%T", "%t4") for x in (second, first)]
    stays(program(*parts, nest("%o2", "add v0 v1", "%t3", "%t4")))


def test_values_that_branches_change() -> None:
    """Both are written by the same texts, in arms of which one may run without the other."""

    def halves_of(to: str, n: int) -> list[str]:
        arm = [f"branch %i9[{n}] {{", halves(to, ("%i1", "%i1"))[0], "} else {\n}"]
        return [nest(to, "neg v0", "%i0"), *arm]

    text = program(
        *halves_of("%t3", 0), *halves_of("%t4", 1), nest("%o2", "add v0 v1", "%t3", "%t4")
    )
    stays(text.replace("%i9: i32[1]", "%i9: i32[2]"))


def test_what_is_overwritten_between_is_read_twice() -> None:
    text = program(
        nest("%t7", "neg v0", "%i0"),
        product("%t3", "%t7"),
        nest("%t7", "add v0 v0", "%t7"),
        product("%t4", "%t7"),
        nest("%o2", "add v0 v1", "%t3", "%t4"),
    )
    stays(text)


def test_a_value_that_changes_after_it_was_found_is_not_read_for_another() -> None:
    """%t3 is updated in place: it no longer holds what %t4 does."""
    stays(
        program(
            TWICE[0],
            nest("%t3", "neg v0", "%t3"),
            TWICE[1],
            nest("%o2", "add v0 v1", "%t3", "%t4"),
        )
    )
    stays(
        program(
            *TWICE,
            nest("%t3", "neg v0", "%t3"),
            nest("%o2", "add v0 v1", "%t3", "%t4"),
        )
    )


def loop(*body: str) -> str:
    """Return a loop of five iterations."""
    return "\n".join(["loop t0 < 5 {", *body, "}"])


def test_the_products_of_a_carry_in_one_iteration() -> None:
    first, second = product("%t3", "%o2"), product("%t4", "%o2")
    start = nest("%o2", "neg v0", "%i0")
    becomes(
        program(start, loop(first, second, nest("%o2", "sub v0 v1", "%t3", "%t4"))),
        program(
            start,
            loop(first, "nest i0 < 16 {\nv0: f32 = %t3[i0]\nv1: f32 = sub v0 v0\n%o2[i0] = v1\n}"),
        ),
    )


def test_a_carry_before_the_loop_is_not_that_of_an_iteration() -> None:
    start, first = nest("%o2", "neg v0", "%i0"), product("%t3", "%o2")
    step = nest("%o2", "add v0 v1", "%t3", "%t4")
    stays(program(start, first, loop(product("%t4", "%o2"), step)))
    stays(program(start, loop(first, product("%t4", "%o2").replace("%o2", "%i0"), step)))
    # Written after it is read, in the iteration before.
    stays(
        program(
            start,
            first,
            loop(
                loop(product("%t4", "%o2"), nest("%t5", "exp v0", "%t4")).replace("t0", "t1"),
                step.replace("%t3", "%t5"),
            ),
        )
    )


def test_what_does_not_change_in_a_loop_is_known_in_it() -> None:
    start = nest("%o2", "neg v0", "%i0")
    becomes(
        program(start, TWICE[0], loop(TWICE[1], nest("%o2", "add v0 v1", "%o2", "%t4"))),
        program(start, TWICE[0], loop(nest("%o2", "add v0 v1", "%o2", "%t3"))),
    )


def test_what_a_block_computes_is_unknown_after_it() -> None:
    """A loop may not run, and of a branch one arm."""
    inside = [TWICE[0], nest("%o2", "neg v0", "%t3")]
    after = [TWICE[1], nest("%o2", "add v0 v1", "%o2", "%t4")]
    start = nest("%o2", "neg v0", "%i0")
    stays(program(start, loop(*inside), *after))
    stays(program(start, "branch %i9[0] {", *inside, "} else {", "}", *after))
    stays(program(start, "branch %i9[0] {", *inside, "} else {", *after, "}"))


def test_what_precedes_a_branch_is_known_in_its_arms() -> None:
    start = nest("%o2", "neg v0", "%t3")
    arms = "branch %i9[0] {\n{}\n}} else {{\n}}".replace("{\n{}", "{{\n{}")
    becomes(
        program(TWICE[0], start, arms.format("\n".join([TWICE[1], nest("%o2", "exp v0", "%t4")]))),
        program(TWICE[0], start, arms.format(nest("%o2", "exp v0", "%t3"))),
    )


def test_what_an_inner_block_hides_is_known_again_after_it() -> None:
    """In the loop %t7 is another one: its product does not stand for that of the outer block."""
    start = nest("%t7", "neg v0", "%i0")

    def product_of(to: str) -> str:
        return product(to, "%t7")

    stays(
        program(
            start,
            product_of("%t3"),
            loop(
                nest("%t7", "exp v0", "%t7"),
                product_of("%t4"),
                nest("%t8", "neg v0", "%t4"),
            ),
            product_of("%t5"),
            nest("%o2", "add v0 v1", "%t3", "%t5"),
        )
    )


def test_the_element_of_a_later_iteration_is_not_read() -> None:
    """%t3 holds all rows after the loop, %t4 only the last one's values at its places."""
    row = "nest i1 < 4 {\nv0: f32 = %i0[i1]\n%T[t0*4 + i1] = v0\n}"
    text = program(
        "loop t0 < 4 {", row.replace("%T", "%t3"), row.replace("%T", "%t4"), "}",
        nest("%o2", "add v0 v1", "%t3", "%t4"),
    )  # fmt: skip
    stays(text)


def test_results_of_the_program_become_copies() -> None:
    both = "%o2: f32[16], %o3: f32[16]"
    text = program(product("%o2", "%i0"), product("%o3", "%i0"), outputs=both)
    becomes(text, program(product("%o2", "%i0"), "%o3[0] = copy(%o2[0]) [16]", outputs=both))
    inside = program(
        nest("%o2", "neg v0", "%i0"),
        loop(product("%t4", "%i0"), product("%o3", "%i0"), nest("%o2", "add v0 v1", "%o2", "%t4")),
        outputs=both,
    )
    stays(inside)


def kernel_count(fun: Any, *args: Any) -> int:
    """Return how many kernels the loops of a function have."""
    with override(engine="native", check=True):
        function = kiln.jit(fun).lower(*args).compile().runtime_executable().function
    return len(kernels(function))


MATRIX = np.arange(1024, dtype=np.float32).reshape(32, 32) % 7
W = np.eye(32, dtype=np.float32) * 2


def test_what_is_kept_longer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """%t3 is dead where its value is recomputed."""
    read = nest("%t5", "neg v0", "%t3"), nest("%o2", "sub v0 v1", "%t5", "%t4")
    text = program(TWICE[0], read[0], TWICE[1], read[1])
    assert len(kernels(numbered(text))) == 1
    monkeypatch.setattr(numbering, "KEPT", 0)
    monkeypatch.setattr(numbering, "FRACTION", 4)
    stays(text)
    # Of three operands and results of 196 bytes a third may be kept.
    monkeypatch.setattr(numbering, "FRACTION", 3)
    assert len(kernels(numbered(text))) == 1


def test_what_is_read_later_anyway_is_not_kept_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "KEPT", 0)
    monkeypatch.setattr(numbering, "FRACTION", 1 << 20)
    text = program(*TWICE, nest("%o2", "add v0 v1", "%t3", "%t4"))
    assert len(kernels(numbered(text))) == 1


def test_checkpoints_are_recomputed() -> None:
    def count(again: Any) -> int:
        def loss(x: Any, w: Any) -> Any:
            def layer(x: Any) -> Any:
                return jnp.sin(jnp.tanh(x @ w) @ w)

            return jnp.sum(again(layer)(x)) + jnp.sum(layer(x) ** 2)

        return kernel_count(kiln.grad(loss), MATRIX, W)

    plain = count(lambda layer: layer)
    assert count(lambda layer: kiln.checkpoint(layer, prevent_cse=False)) == plain
    assert count(kiln.checkpoint) > plain


def test_memory_of_checkpoints() -> None:
    """What is recomputed is not kept."""
    x, w = np.ones((256, 256), np.float32), np.eye(256, dtype=np.float32)

    def room(again: Any) -> Any:
        def loss(x: Any, w: Any) -> Any:
            layer = again(lambda x: jnp.tanh(jnp.tanh(jnp.tanh(x @ w) @ w) @ w))
            return jnp.sum(layer(layer(layer(layer(x)))))

        with override(engine="native", check=True):
            lowered = kiln.jit(kiln.grad(loss)).lower(x, w)
        return workspace(lowered.compile().runtime_executable().function)[1]

    assert room(kiln.checkpoint) < room(lambda layer: layer)


def test_both_sides_agree_with_the_meaning() -> None:
    def scan(w: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            joined = lambda: jnp.concatenate([h, x]) @ w
            h = (joined() - (h @ w[:6]) * (h @ w[:6])) % 7
            return h, (joined(), h @ w[:6])

        return lax.scan(step, h, xs)

    def branches(n: Any, x: Any) -> Any:
        y = jnp.cumsum(x)
        z = lax.switch(n, [lambda: jnp.cumsum(x) + y, lambda: jnp.sort(x), lambda: jnp.sort(-x)])
        return jnp.sort(x) - z, jnp.cumsum(x), jnp.cumsum(x), x.at[1].set(3), x.at[1].set(3)

    agree(scan, (numbers(9, 6), numbers(6), numbers(5, 3)))
    agree(branches, *[(np.int32(n), numbers(40, seed=n)) for n in range(3)])
