"""Reductions of windows are nests: unrolled, along an axis of the nest, or by doubling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kiln
from kiln import lax
from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.options.config import override
from kiln.core.primitive import Primitive
from kiln.ops.elements.elementwise import ge_p, le_p
from kiln.ops.reductions.generic_window import reduce_window
from kiln.ops.reductions.window import (
    geometry,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_gather_add_p,
)
from tests.unit._runtime.kernels.running import sample
from tests.unit._runtime.kernels.test_windows import CASES, agree, params_of
from tests.unit.engines.native.lowerings.running import assert_meaning, results

LONG = [
    # Long windows that overlap are doubled, others are reduced over an axis of their nest.
    ((90,), params_of((37,), (1,), ((0, 0),))),
    ((90,), params_of((37,), (1,), ((30, 7),))),
    ((3, 120), params_of((1, 32), (1, 2), ((0, 0), (0, 5)), None, (1, 3))),
    ((90,), params_of((17,), (17,), ((3, 0),))),
    ((12, 13, 5), params_of((5, 6, 1), (1, 2, 1), ((2, 2), (0, 3), (0, 0)))),
    ((9, 10), params_of((6, 7), (6, 7), ((0, 0), (0, 0)))),
    ((20, 2), params_of((18, 1), (1, 1), ((9, 9), (0, 0)), (2, 1))),
]
POOLED = """function pool(%i0: f32[2048]) -> (%o1: f32[512]) {
  nest i0 < 8, i2 < 4, i3 < 16 {
    v0: f32 = %i0[i0*256 + i2*32 + i3]
    v1: f32 = abs v0
    v2: f32 = %i0[i0*256 + i2*32 + i3 + 16]
    v3: f32 = abs v2
    v4: f32 = max v1 v3
    v5: f32 = %i0[i0*256 + i2*32 + i3 + 128]
    v6: f32 = abs v5
    v7: f32 = max v4 v6
    v8: f32 = %i0[i0*256 + i2*32 + i3 + 144]
    v9: f32 = abs v8
    v10: f32 = max v7 v9
    v12: f32 = mul v10 2.0:f32
    %o1[i0*64 + i2*16 + i3] = v12
  }
}
"""
SOME = ["?", "b", "Q", "e", "f", "F"]
IDENTITY = {"add": 0.0, "max": -np.inf, "min": np.inf, "mul": 1.0}


def run(primitive: Primitive, x: Any, params: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    return results(lambda y: primitive.bind(y, **params), x)


def text_of(function: Any, *xs: Any) -> str:
    with override(engine="native"):
        return str(kiln.jit(function).lower(*xs).as_text("loops"))


@pytest.mark.parametrize(("shape", "params"), CASES + LONG)
def test_sums(shape: tuple[int, ...], params: dict[str, Any]) -> None:
    for dtype in SOME[1:]:
        x = sample(dtype, shape, 1, few=True)
        if x.dtype.kind not in "iu":
            x = np.where(np.isfinite(x), x, 3).astype(dtype)
        agree(*run(reduce_window_sum_p, x, params), 8)


@pytest.mark.parametrize(("shape", "params"), CASES + LONG)
def test_extremes(shape: tuple[int, ...], params: dict[str, Any]) -> None:
    for dtype in SOME:
        x = sample(dtype, shape, 2, few=True)
        agree(*run(reduce_window_max_p, x, params), 0)
        agree(*run(reduce_window_min_p, np.where(np.isnan(x), 1, x).astype(dtype), params), 0)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_windows(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        numbers = st.integers(low, high)
        return tuple(data.draw(st.lists(numbers, min_size=rank, max_size=rank)))

    shape = each(0, 7)
    padding = tuple(zip(each(-2, 3), each(-2, 3), strict=True))
    params = params_of(each(1, 5), each(1, 3), padding, each(1, 3), each(1, 3))
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    for primitive in (reduce_window_sum_p, reduce_window_max_p):
        agree(*run(primitive, x, params), 0)
    select = data.draw(st.sampled_from([ge_p, le_p]))
    given = {"select_prim": select, **params}
    agree(*results(lambda t, x: select_and_gather_add_p.bind(t, x, **given), x + 1, x), 0)


@pytest.mark.parametrize("name", IDENTITY)
@pytest.mark.parametrize(
    ("dims", "strides", "padding", "base", "dilation"),
    [
        ((3,), (2,), "VALID", None, None),
        ((3,), (1,), [(1, 2)], None, None),
        ((2,), (1,), [(1, -1)], (3,), None),
        ((3,), (2,), [(1, 1)], (2,), None),
        ((20,), (20,), [(-1, 3)], None, None),
        ((40,), (1,), [(5, 0)], None, (2,)),
    ],
)
def test_a_named_axis(
    name: str, dims: Any, strides: Any, padding: Any, base: Any, dilation: Any
) -> None:
    """One program for all sizes, of windows along the named axis too."""

    def function(x: Any) -> Any:
        return reduce_window(
            2 * x, IDENTITY[name], getattr(lax, name), dims, strides, padding, base, dilation
        )

    sized = kiln.jit(function, abstracted_axes=("n",))
    for n in (2, 3, 41, 1, 39, 130):
        x = np.random.default_rng(n).integers(-1, 2, n).astype(np.float32)
        with override(engine="native"):
            found = np.asarray(sized(x))
        with override(engine="reference"):
            expected = np.asarray(kiln.jit(function)(x))
        np.testing.assert_array_equal(found, expected)
    with override(engine="native"):
        assert "[n]" in sized.lower(x).as_text("loops")


def test_pooling_is_one_nest_with_what_is_around_it() -> None:
    def pool(x: Any) -> Any:
        pooled = lax.reduce_window(
            jnp.abs(x), -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
        return pooled * 2

    x = np.zeros((2, 8, 8, 16), np.float32)
    assert text_of(pool, x) == POOLED
    assert_meaning(pool, np.random.default_rng(0).normal(size=x.shape).astype(np.float32))


def test_no_window_needs_a_mask() -> None:
    """With padding the windows of a corner, an edge and the inside are nests of their own."""
    x = np.ones((6, 8, 32), np.float32)
    text = text_of(lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 3, 1), (1, 1, 1), "SAME"), x)
    assert text.count("nest") == 4
    assert "select" not in text


@pytest.mark.parametrize(
    ("size", "stride", "passes"), [(16, 1, 1), (64, 1, 3), (1000, 1, 5), (64, 32, 1)]
)
def test_long_windows_take_few_passes(size: int, stride: int, passes: int) -> None:
    x = np.zeros(5000, np.float32)
    text = text_of(lambda x: lax.reduce_window(x, 0.0, lax.add, (size,), (stride,), "VALID"), x)
    assert text.count("nest") == passes
    assert len(text.splitlines()) < 20 * passes + 25


def test_sums_are_never_minus_zero() -> None:
    x = np.full((4, 4), -0.0, np.float32)
    with override(engine="native"):
        found = kiln.jit(lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1), (2, 2), "VALID"))(x)
    assert not np.signbit(np.asarray(found)).any()


def test_narrow_floats_are_rounded_once() -> None:
    terms = np.array([60000, 60000, -60000], np.float16)
    total, _ = results(lambda x: lax.reduce_window(x, 0.0, lax.add, (3,), (1,), "VALID"), terms)
    assert total.astype(float) == [60000]
    many = np.array([256, *[1] * 40, 2] * 3, dtypes.bfloat16)
    total, _ = results(lambda x: lax.reduce_window(x, 0.0, lax.add, (42,), (1,), "VALID"), many)
    exact = np.convolve(many.astype(np.float64), np.ones(42), "valid")
    np.testing.assert_array_equal(total.astype(float), exact.astype(dtypes.bfloat16).astype(float))


@pytest.mark.parametrize("dtype", ["f", "F", "i", "e"])
@pytest.mark.parametrize("windows", [((2, 3), (1, 2), "SAME"), ((20, 1), (1, 1), "SAME")])
def test_products(dtype: str, windows: Any) -> None:
    x = np.random.default_rng(0).integers(1, 3, (25, 4)).astype(dtype)
    assert_meaning(lambda x: lax.reduce_window(x, x.dtype.type(3), lax.mul, *windows), x)
    if dtype != "e":
        text = text_of(lambda x: lax.reduce_window(x, x.dtype.type(3), lax.mul, *windows), x)
        assert "loop" not in text


@pytest.mark.parametrize("windows", [((1, 3, 3, 1), (1, 1, 1, 1)), ((1, 30, 1, 1), (1, 1, 1, 1))])
def test_the_same_bits_on_any_number_of_threads(windows: Any) -> None:
    x = np.random.default_rng(0).normal(size=(4, 64, 64, 16)).astype(np.float32)
    found = []
    for n in (1, 2, 3):
        with override(engine="native"), kiln.num_threads(n):
            function = kiln.jit(lambda x: lax.reduce_window(x, 0.0, lax.add, *windows, "SAME"))
            found.append(np.asarray(function(x)).tobytes())
    assert len(set(found)) == 1


def test_a_scalar_is_its_own_window() -> None:
    assert_meaning(
        lambda x: reduce_window_sum_p.bind(x, **geometry((), (), ()).params), np.int32(3)
    )
