"""Chains of products and nests in strips: what is taken for one, and that numbers stay the same."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import nn
from kiln.base.options.config import override
from kiln.engines.native.building.builder import function_of
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.statements import Function, Kernel, walk
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.lowerings import LOWERINGS
from kiln.engines.native.passes.pipeline import optimized
from kiln.engines.native.passes.products import chains, recomputation
from kiln.engines.native.passes.products.strip_loops import run_in_strips
from kiln.engines.native.passes.workspace import workspace

RNG = np.random.default_rng(0)


def draw(*shape: int, dtype: str = "f4") -> np.ndarray:
    """Return random numbers around zero."""
    return RNG.standard_normal(shape).astype(dtype)


def loops(f: Callable[..., Any], *args: Any) -> Function:
    """Return a program as loops, checked after each pass."""
    jaxpr = kiln.make_jaxpr(f)(*args).jaxpr
    return optimized(function_of(jaxpr, "f", LOWERINGS, frozenset()), checked=True)


def in_strips(function: Function) -> int:
    """Return the number of products that run in strips."""
    kernels = [each for each in walk(function.body) if isinstance(each, Kernel)]
    return sum("strip" in each.symbol for each in kernels)


def scores(q: Any, k: Any) -> Any:
    return q @ jnp.swapaxes(k, -1, -2) * 0.3


def causal(s: Any) -> Any:
    i = jnp.arange(s.shape[-1])
    return jnp.where(i[: s.shape[-2], None] >= i, s, -1e30)


def same(x: Any, y: Any) -> None:
    for a, b in zip(kiln.tree.leaves(x), kiln.tree.leaves(y), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("rows", [256, 331])
@pytest.mark.parametrize("mask", [lambda s: s, causal], ids=["all", "causal"])
def test_the_bits_are_those_of_three_programs(rows: int, mask: Any) -> None:
    """Whatever the number of threads, and for nans and infinities too."""
    q, k, v = draw(2, 3, rows, 16), draw(2, 3, rows, 16), draw(2, 3, rows, 16)
    q[0, 1, 5], q[1, 2, 7], k[1, 0, 3], v[0, 0, 2] = np.nan, np.inf, -np.inf, np.nan
    v[1, 1, 1], q[0, 0, 9] = np.inf, -0.0

    def weights(s: Any) -> Any:
        return nn.softmax(mask(s * 0.3))

    def whole(q: Any, k: Any, v: Any) -> Any:
        return weights(q @ jnp.swapaxes(k, -1, -2)) @ v

    assert in_strips(loops(whole, q, k, v)) >= 2
    with override(engine="native", check=True):
        s = kiln.jit(lambda q, k: q @ jnp.swapaxes(k, -1, -2))(q, k)
        expected = kiln.jit(jnp.matmul)(kiln.jit(weights)(s), v)
        program = kiln.jit(whole)
        for threads in (1, 2, 3):
            with kiln.num_threads(threads):
                same(program(q, k, v), expected)


def test_doubles_and_rows_that_are_wholly_masked() -> None:
    with override(enable_x64=True, engine="native", check=True):
        q, k, v = (draw(4, 200, 24, dtype="f8") for _ in range(3))
        seen = RNG.random((200, 200)) < 0.5
        seen[17] = False

        def f(q: Any, k: Any, v: Any, seen: Any) -> Any:
            return nn.softmax(jnp.where(seen, scores(q, k), -np.inf)) @ v

        assert in_strips(loops(f, q, k, v, seen)) == 2
        found = np.asarray(kiln.jit(f)(q, k, v, seen))
        s = np.where(seen, q @ k.swapaxes(1, 2) * 0.3, -np.inf)
        with np.errstate(invalid="ignore"):
            p = np.exp(s - s.max(-1, keepdims=True))
            expected = p / p.sum(-1, keepdims=True) @ v
        assert np.isnan(found[:, 17]).all()
        np.testing.assert_allclose(found, expected, 1e-12, 1e-13)


@pytest.mark.parametrize("rows", [256, 331])
@pytest.mark.parametrize("again", [1 << 10, 1 << 30], ids=["recomputed", "stored"])
@pytest.mark.parametrize("layout", ["heads first", "heads last"])
def test_gradients(rows: int, again: int, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recomputation, "RECOMPUTED_BYTES", again)
    q, k, v, w = draw(2, 3, rows, 16), draw(2, 3, rows, 16), draw(2, 3, rows, 16), draw(16, 16)
    if layout == "heads last":
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))

    def attention(q: Any, k: Any, v: Any) -> Any:
        if layout == "heads last":
            return nn.dot_product_attention(q, k, v, is_causal=True)
        return nn.softmax(causal(scores(q, k))) @ v

    def loss(q: Any, k: Any, v: Any, w: Any) -> Any:
        return jnp.sum(jnp.sin(attention(q, k, v) @ w))

    step = kiln.grad(loss, argnums=(0, 1, 2))
    function = loops(step, q, k, v, w)
    assert in_strips(function) >= (6 if again < 1 << 20 else 3)
    with override(engine="native", check=True):
        program = kiln.jit(lambda *xs: step(*xs))
        with kiln.num_threads(1):
            found = program(q, k, v, w)
        with kiln.num_threads(2):
            same(program(q, k, v, w), found)
    with override(enable_x64=True, engine="native"):
        monkeypatch.setattr(chains, "FEWEST_BYTES", 1 << 40)
        expected = kiln.jit(step)(*[x.astype("f8") for x in (q, k, v, w)])
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, 1e-4, 1e-4)


@pytest.mark.parametrize(
    "f",
    [
        lambda q, k, v: nn.softmax(scores(q, k), -2) @ v,
        lambda q, k, v: (lambda p: (p @ v, p))(nn.softmax(scores(q, k))),
        lambda q, k, v: nn.softmax(scores(q, k))[:, ::-1] @ v,
        lambda q, k, v: (lambda p: p @ v + p[:, ::-1] @ v)(nn.softmax(scores(q, k))),
        lambda q, k, v: jnp.cumsum(scores(q, k), 1) @ v,
        lambda q, k, v: v @ nn.softmax(scores(q, k))[:, :20],
    ],
    ids=["columns", "returned", "reversed", "read twice", "rows in order", "on the right"],
)
def test_what_needs_the_whole_matrix_has_it(f: Callable[..., Any]) -> None:
    q, k, v = draw(4, 256, 20), draw(4, 256, 20), draw(4, 256, 20)
    function = loops(f, q, k, v)
    sizes = [buffer.size for each in walk(function.body) for buffer in _results(each)]
    assert 4 * 256 * 256 in sizes
    with override(engine="native", check=True):
        found = kiln.tree.leaves(kiln.jit(lambda *xs: f(*xs))(q, k, v))
    with override(engine="reference"):
        expected = kiln.tree.leaves(kiln.jit(lambda *xs: f(*xs))(q, k, v))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, 2e-4, 2e-4)


def _results(statement: Any) -> list[Any]:
    if isinstance(statement, Kernel):
        return [place.buffer for place in statement.results]
    return [effect.buffer for effect in getattr(statement, "effects", [])]


def test_memory_grows_with_the_rows_and_not_their_square() -> None:
    def step(q: Any) -> Any:
        return kiln.grad(lambda q: jnp.sum(jnp.sin(nn.softmax(scores(q, q)) @ q)))(q)

    small, large = (workspace(loops(step, draw(8, n, 16)))[1] for n in (1024, 2048))
    assert large < 2.5 * small
    assert large < 8 * 2048 * 2048 * 4 / 2


TEXT = """
function f(%i0: f32[32768], %i1: f32[32768], %i2: f32[32768]) -> (%o3: f32[32768]) {
  temp %t4: f32[131072]
  temp %t5: f32[131072]
  %t4[0] = kiln_gemm_f32(%i0[0], %i1[0]) [2, 256, 256, 64, 0, 1, 16384, 16384, 65536, 0]
  nest i0 < 2, i1 < 256, i2 < 256 {
    v0: f32 = %t4[i0*65536 + i1*256 + i2]
    v1: f32 = exp v0
    %t5[i0*65536 + i1*256 + i2] = v1
  }
  %o3[0] = kiln_gemm_f32(%t5[0], %i2[0]) [2, 256, 64, 256, 0, 0, 65536, 16384, 16384, 0]
}
"""
IN_STRIPS = """
function f(%i0: f32[32768], %i1: f32[32768], %i2: f32[32768]) -> (%o3: f32[32768]) {
  temp %t4: f32[65536]
  temp %t5: f32[65536]
  parallel s0 < 2 {
    loop strip < 2 {
      %t4[s0*32768] = kiln_gemm_strip_f32(%i0[s0*16384 + strip*8192], %i1[s0*16384]) [128, 256, 64, 0, 1, 64, 64, 256, 0]
      nest row < 128, i2 < 256 {
        v0: f32 = %t4[s0*32768 + row*256 + i2]
        v1: f32 = exp v0
        %t5[s0*32768 + row*256 + i2] = v1
      }
      %o3[s0*16384 + strip*8192] = kiln_gemm_strip_f32(%t5[s0*32768], %i2[s0*16384]) [128, 64, 256, 0, 0, 256, 64, 64, 0]
    }
  }
}
"""


def test_the_pass_from_text() -> None:
    function = parse(TEXT)
    run_in_strips(function)
    check(function, "strips")
    assert to_text(function).strip() == IN_STRIPS.strip()


def test_a_smaller_product_is_left_alone() -> None:
    q = draw(2, 128, 16)
    assert in_strips(loops(lambda q: nn.softmax(scores(q, q)) @ q, q)) == 0
