"""Epilogues of products: what is made one, and that the bits are those of a nest of its own."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.errors import CheckError
from kiln.base.options.config import override
from kiln.engines.native.building.builder import function_of
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.statements import Blocked, Function, Nest, Role, walk
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.lowerings import LOWERINGS
from kiln.engines.native.passes.pipeline import optimized
from kiln.engines.native.passes.products import epilogues

RNG = np.random.default_rng(0)


def draw(*shape: int, dtype: str = "f4") -> np.ndarray:
    """Return random numbers around zero."""
    return RNG.standard_normal(shape).astype(dtype)


def loops(f: Callable[..., Any], *args: Any, checks: str = "") -> Function:
    """Return a program as loops, checked after each pass."""
    jaxpr = kiln.make_jaxpr(f)(*args).jaxpr
    return optimized(function_of(jaxpr, "f", LOWERINGS, frozenset(checks.split())), checked=True)


def blocked(function: Function) -> list[Blocked]:
    """Return the products of a function that have an epilogue."""
    return [each for each in walk(function.body) if isinstance(each, Blocked)]


def same_bits(after: Callable[..., Any], a: Any, b: Any, *args: Any, count: int | None = 1) -> None:
    """Compare a product and what follows with the two as programs of their own."""

    def whole(a: Any, b: Any, *args: Any) -> Any:
        return after(a @ b, *args)

    assert count in (None, len(blocked(loops(whole, a, b, *args))))
    with override(engine="native", check=True):
        product = kiln.jit(jnp.matmul)(a, b)
        expected = kiln.tree.leaves(kiln.jit(after)(product, *args))
        program = kiln.jit(whole)
        for threads in (1, 2, 3):
            with kiln.num_threads(threads):
                found = kiln.tree.leaves(program(a, b, *args))
            for x, y in zip(found, expected, strict=True):
                assert (x.shape, x.dtype) == (y.shape, y.dtype)
                assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def relu(t: Any, c: Any) -> Any:
    return jnp.maximum(t + c, 0)


LARGE = (520, 20, 510)


@pytest.mark.parametrize("k", [8, 256, 257, 700])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_bias_and_an_activation(k: int, dtype: str) -> None:
    with override(enable_x64=True):
        a, b, c = draw(520, k, dtype=dtype), draw(k, 510, dtype=dtype), draw(510, dtype=dtype)
        same_bits(relu, a, b, c)
        same_bits(lambda t, c: jnp.tanh(t) * c, a, b, c)


def test_few_rows_and_many_columns() -> None:
    same_bits(relu, draw(9, 300), draw(300, 40_003), draw(40_003))


def test_many_rows_and_few_columns() -> None:
    same_bits(relu, draw(20_001, 9), draw(9, 17), draw(17))


def test_scalars_rows_and_residuals() -> None:
    m, k, n = LARGE
    a, b = draw(m, k), draw(k, n)
    same_bits(lambda t, s: jnp.exp(t * s), a, b, np.float32(0.1))
    same_bits(lambda t, r: t * r, a, b, draw(m, 1))
    same_bits(lambda t, r: r + t, a, b, draw(m, n))


def test_several_results_of_other_types() -> None:
    m, k, n = LARGE

    def after(t: Any, c: Any) -> Any:
        return t > c, (t * c).astype(jnp.bfloat16), lax.round(t).astype(jnp.int8), t + c

    same_bits(after, draw(m, k), draw(k, n), draw(n))


def test_positions_in_the_product() -> None:
    m, k, n = LARGE

    def after(t: Any) -> Any:
        rows, columns = (lax.broadcasted_iota(jnp.int32, t.shape, i) for i in range(2))
        return jnp.where(rows >= columns, t, -1e9)

    same_bits(after, draw(m, k), draw(k, n))


@pytest.mark.parametrize("shared", [False, True])
def test_stacks_of_products(shared: bool) -> None:
    a, b = draw(3, 5, 130, 40), draw(40, 200) if shared else draw(3, 5, 40, 200)
    same_bits(lambda t: t * 0.125, a, b)
    same_bits(lambda t, c: t + c, a, b, draw(130, 200))
    same_bits(lambda t, c: t + c, a, b, draw(5, 130, 200))
    same_bits(lambda t, c: t + c, a, b, draw(3, 1, 1, 200))


def test_transposed_operands() -> None:
    m, k, n = LARGE
    with override(engine="native"):
        for a, b in ((draw(k, m).T, draw(n, k).T), (draw(m, k), draw(n, k).T)):
            same_bits(relu, a, b, draw(n))


def test_a_product_that_is_a_result_too_is_kept() -> None:
    m, k, n = LARGE
    same_bits(lambda t, c: (t, t + c), draw(m, k), draw(k, n), draw(n))
    same_bits(lambda t, c: (jnp.sort(t), t + c), draw(m, k), draw(k, n), draw(n))


def test_a_product_that_nothing_else_reads_is_nowhere() -> None:
    m, k, n = LARGE
    f = kiln.jit(lambda a, b, c: relu(a @ b, c))
    compiled = f.lower(draw(m, k), draw(k, n), draw(n)).compile()
    assert compiled.memory_analysis().temp_size_in_bytes == 0


def test_of_two_products_the_later_one_has_the_epilogue() -> None:
    m, k, n = LARGE

    def gated(t: Any, x: Any, w: Any) -> Any:
        return t * jnp.tanh(x @ w)

    same_bits(gated, draw(m, k), draw(k, n), draw(m, k), draw(k, n))


def test_in_a_loop() -> None:
    def f(state: Any, w: Any, xs: Any) -> Any:
        def turn(state: Any, x: Any) -> Any:
            return state * 0.5 + jnp.tanh(x @ w), jnp.sum(state)

        return lax.scan(turn, state, xs)

    args = draw(513, 512), draw(40, 512), draw(3, 513, 40)
    assert len(blocked(loops(f, *args))) == 1
    with override(engine="reference"):
        expected = kiln.tree.leaves(kiln.jit(f)(*args))
    with override(engine="native", check=True):
        found = kiln.tree.leaves(kiln.jit(f)(*args))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)


def test_what_a_loop_carries_is_no_result_of_its_own_product() -> None:
    """The carry is one buffer, which other blocks still read."""

    def f(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x @ w), x)

    x, w = draw(513, 512), draw(512, 512) / 23
    assert not blocked(loops(f, x, w))


def test_many_steps() -> None:
    ws = [draw(512, 512) / 23 for _ in range(7)]

    def f(x: Any, ws: Any) -> Any:
        for w in ws:
            x = jnp.tanh(x @ w)
        return x

    x = draw(512, 512)
    assert len(blocked(loops(f, x, ws))) == 7
    with override(engine="native"):
        found = kiln.jit(f)(x, ws)
        for w in ws:
            x = kiln.jit(jnp.tanh)(kiln.jit(jnp.matmul)(x, w))
    assert np.asarray(found).tobytes() == np.asarray(x).tobytes()


# Loops over rows.


def softmax(t: Any, *masks: Any) -> Any:
    for mask in masks:
        t = jnp.where(mask, t, -1e9)
    return kiln.nn.softmax(t * 0.125, axis=-1)


def norm(t: Any) -> Any:
    t = t - jnp.mean(t, -1, keepdims=True)
    return t * lax.rsqrt(jnp.mean(t * t, -1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_rows_of_one_product(dtype: str) -> None:
    with override(enable_x64=True):
        for m, k, n in ((521, 20, 515), (3001, 300, 100), (260, 17, 1024)):
            for after in (softmax, norm, lambda t: (jnp.max(t, -1), softmax(t))):
                same_bits(after, draw(m, k, dtype=dtype), draw(k, n, dtype=dtype))


def test_rows_of_a_stack() -> None:
    a, b, mask = draw(3, 5, 130, 40), draw(3, 5, 40, 200), draw(130, 200) > 0
    same_bits(softmax, a, b)
    same_bits(softmax, a, b, mask)
    same_bits(norm, draw(40, 130, 64), draw(64, 200))


def test_rows_with_more_axes() -> None:
    def after(t: Any, v: Any) -> Any:
        y = softmax(t)
        return y[..., None] * v + jnp.max(y, -1, keepdims=True)[..., None]

    same_bits(after, draw(600, 20), draw(20, 500), draw(40), count=None)


def test_rows_in_many_steps() -> None:
    ws = [draw(256, 1100) / 16 for _ in range(9)]

    def f(x: Any, ws: Any) -> Any:
        return [softmax(x @ w) for w in ws]

    x = draw(256, 256)
    assert len(blocked(loops(f, x, ws))) == 9
    with override(engine="native"):
        found = []
        for threads in (1, 3):
            with kiln.num_threads(threads):
                found.append(kiln.jit(f)(x, ws))
        expected = [kiln.jit(softmax)(kiln.jit(jnp.matmul)(x, w)) for w in ws]
    for one, three, alone in zip(*found, expected, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(three).tobytes()
        # Where functions are called instead of expanded, a row is summed in other parts.
        np.testing.assert_allclose(one, alone, rtol=1e-6)


def test_long_rows_are_no_epilogue() -> None:
    """Blocks of whole rows would not stay in the cache."""
    assert not blocked(loops(lambda a, b: softmax(a @ b), draw(64, 64), draw(64, 5000)))


# What has none.


@pytest.mark.parametrize(
    "after",
    [
        lambda t: t.T + 1,
        lambda t: t[::-1] + 1,
        lambda t: t[1:] + t[:-1],
        lambda t: jnp.sum(jnp.abs(t), 0),
        lambda t: jnp.sort(t),
    ],
)
def test_nests_that_are_no_epilogue(after: Callable[[Any], Any]) -> None:
    m, k, n = LARGE
    assert not blocked(loops(lambda a, b: after(a @ b), draw(m, k), draw(k, n)))


def test_small_products_have_none() -> None:
    assert not blocked(loops(lambda a, b: jnp.tanh(a @ b), draw(64, 64), draw(64, 64)))


def test_programs_with_checks_have_none() -> None:
    args = draw(512, 64), draw(64, 512)
    assert not blocked(loops(lambda a, b: jnp.log(a @ b), *args, checks="nan"))


def test_named_sizes_have_none() -> None:
    m, k, n = LARGE
    f = kiln.jit(lambda a, b: jnp.tanh(a @ b), abstracted_axes=({0: "m"}, {}))
    a, b = draw(m, k), draw(k, n)
    np.testing.assert_allclose(f(a, b), np.tanh(a @ b), rtol=1e-4, atol=1e-4)


# Memory that is shared.


def test_an_operand_of_the_product_is_not_overwritten() -> None:
    """Other blocks still read it: a donated one cannot be the result's memory."""
    w = draw(512, 512)
    f = kiln.jit(lambda x: jnp.tanh(x @ w), donate_argnums=0)
    x = draw(600, 512)
    expected = kiln.jit(jnp.tanh)(kiln.jit(jnp.matmul)(x, w))
    for threads in (1, 3):
        with kiln.num_threads(threads):
            found = f(jnp.array(x))
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_a_donated_residual_is_the_results_memory() -> None:
    m, k, n = LARGE
    f = kiln.jit(lambda r, a, b: r + a @ b, donate_argnums=0)
    r, a, b = draw(m, n), draw(m, k), draw(k, n)
    assert "lies where %i0 was donated" in f.explain_memory(r, a, b)
    given = jnp.array(r) * 1
    address = given.unsafe_buffer_pointer()
    found = f(given, a, b)
    assert found.unsafe_buffer_pointer() == address
    np.testing.assert_allclose(found, r + a @ b, rtol=1e-4, atol=1e-4)


def test_an_operand_and_a_result_share_no_memory_of_the_workspace() -> None:
    ws = [draw(512, 512) / 23 for _ in range(2)]

    def f(x: Any) -> Any:
        x = jnp.sin(x)
        for w in ws:
            x = jnp.tanh(x @ w)
        return jnp.cos(x)

    x = draw(512, 512)
    with override(engine="native"):
        t = kiln.jit(jnp.sin)(x)
        for w in ws:
            t = kiln.jit(jnp.tanh)(kiln.jit(jnp.matmul)(t, w))
        expected = kiln.jit(jnp.cos)(t)
        with kiln.num_threads(3):
            found = kiln.jit(f)(x)
    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


# Text.

TEXT = """
function f(%i0: f32[65536], %i1: f32[65536], %i2: f32[512]) -> (%o3: f32[262144]) {
  temp %t4: f32[262144]
  %t4[0] = kiln_gemm_f32(%i0[0], %i1[0]) [1, 512, 512, 128, 0, 0, 0, 0, 262144, 0]
  nest i0 < 512, i1 < 512 {
    v0: f32 = %t4[i0*512 + i1]
    v1: f32 = %i2[i1]
    v2: f32 = add v0 v1
    %o3[i0*512 + i1] = v2
  }
}
"""
IN_BLOCKS = """
function f(%i0: f32[65536], %i1: f32[65536], %i2: f32[512]) -> (%o3: f32[262144]) {
  block %b4: f32[262144]
  blocked {
    %b4[0] = kiln_gemm_f32(%i0[0], %i1[0]) [1, 512, 512, 128, 0, 0, 0, 0, 262144, 0]
    nest i0 < 512, i1 < 512 {
      v0: f32 = %b4[i0*512 + i1]
      v1: f32 = %i2[i1]
      v2: f32 = add v0 v1
      %o3[i0*512 + i1] = v2
    }
  }
}
"""


def test_the_pass_from_text() -> None:
    function = parse(TEXT)
    epilogues.run_in_blocks(function)
    check(function, "epilogues")
    assert to_text(function).strip() == IN_BLOCKS.strip()
    assert to_text(parse(IN_BLOCKS)).strip() == IN_BLOCKS.strip()
    assert [each.role for each in {p.buffer for p in blocked(function)[0].product.results}] == [
        Role.BLOCK
    ]


def test_a_product_waits_for_what_its_epilogue_reads() -> None:
    """What is made between the two is made before both of them."""
    bias = """  nest i2 < 512 {
    v0: f32 = %i2[i2]
    v1: f32 = sqrt v0
    %t5[i2] = v1
  }
"""
    text = TEXT.replace("v1: f32 = %i2[i1]", "v1: f32 = %t5[i1]")
    text = text.replace("  nest i0", f"{bias}  nest i0").replace(
        "  %t4[0]", "  temp %t5: f32[512]\n  %t4[0]"
    )
    function = parse(text)
    epilogues.run_in_blocks(function)
    check(function, "epilogues")
    first, second = function.body
    assert isinstance(first, Nest)
    assert isinstance(second, Blocked)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%b4[i0*512 + i1]", "%b4[i0*512 + i1*-1 + 511]", "touches %b4 at another place"),
        ("%b4[i0*512 + i1]", "%b4[i1*512 + i0]", "touches %b4 at another place"),
        ("%o3[i0*512 + i1] = v2", "%o3[i0] = add v2", "parallel loops and nests"),
        ("nest i0 < 512", "nest i0 < 511", "does not compute each point"),
    ],
)
def test_broken_epilogues_are_found(old: str, new: str, message: str) -> None:
    assert old in IN_BLOCKS
    with pytest.raises(CheckError, match=message):
        check(parse(IN_BLOCKS.replace(old, new)), "a test")


def test_an_epilogue_that_writes_an_operand_is_found() -> None:
    text = textwrap.dedent(IN_BLOCKS).replace("%o3: f32[262144]", "%o3: f32[65536]")
    text = text.replace("512, 512, 128", "512, 128, 128").replace("262144", "65536")
    text = text.replace("i1 < 512", "i1 < 128").replace("i0*512", "i0*128")
    check(parse(text), "a test")
    copied = text.replace("  blocked {", "  %o3[0] = copy(%i0[0]) [65536]\n  blocked {")
    with pytest.raises(CheckError, match="writes %o3, an operand"):
        check(parse(copied.replace("(%i0[0], %i1[0])", "(%o3[0], %i1[0])")), "a test")


# At random.


@st.composite
def products(draw_: Any) -> tuple[Any, ...]:
    """Draw sizes, a type, and the numbers of operations that follow."""
    m = draw_(st.integers(8, 150))
    k = draw_(st.sampled_from([9, 17, 64, 255, 256, 300, 520]))
    n = draw_(st.sampled_from([16, 17, 31, 32, 33, 48, 64, 100, 255, 256, 257, 300, 520, 777]))
    batch = draw_(st.sampled_from([(), (), (2,), (9,), (2, 3)]))
    operations = draw_(st.lists(st.integers(0, 9), min_size=1, max_size=5))
    shared = draw_(st.booleans())
    return m, k, n, batch, shared, draw_(st.sampled_from(["f4", "f8"])), operations


@hypothesis.given(products(), st.integers(0, 1 << 30))
@hypothesis.settings(max_examples=60, deadline=None)
def test_random_epilogues(drawn: tuple[Any, ...], seed: int) -> None:
    m, k, n, batch, shared, dtype, operations = drawn
    rng = np.random.default_rng(seed)

    def random(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(dtype)

    a, b = random(*batch, m, k), random(k, n) if shared else random(*batch, k, n)
    args = random(n), random(m, 1), random(m, n), random(*batch, m, n), random(*batch, 1, n)

    def after(t: Any, row: Any, column: Any, matrix: Any, stack: Any, rows: Any) -> Any:
        found = [t]
        for operation in operations:
            x, y = found[-1], found[operation % len(found)]
            match operation:
                case 0:
                    x = x + row
                case 1:
                    x = x * column
                case 2:
                    x = x - matrix
                case 3:
                    x = jnp.maximum(x, stack)
                case 4:
                    x = jnp.tanh(x + rows)
                case 5:
                    x = jnp.where(matrix > 0, x, y)
                case 6:
                    x = x.astype(jnp.float16).astype(x.dtype)
                case 7:
                    x = x + lax.broadcasted_iota(x.dtype, x.shape, x.ndim - 2)
                case 8:
                    x = x / 3 - y
                case 9:
                    x = jnp.abs(x) + 1
            found.append(x)
        return found[1:] if operations[0] % 2 else found[-1]

    with pytest.MonkeyPatch.context() as patched, override(enable_x64=True):
        patched.setattr(epilogues, "FEWEST_BYTES", 0)
        # Nests that are not one nest may be one loop over rows.
        same_bits(after, a, b, *args, count=None)
