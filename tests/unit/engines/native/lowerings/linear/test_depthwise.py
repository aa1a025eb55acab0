"""Depthwise convolutions run as nests, forwards and backwards, and mean what they should."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.base.options.config import override
from kiln.engines.native.lowerings.linear.depthwise import MOST_PHASES, MOST_TAPS, readings
from kiln.ops.linear.convolution import conv_general_dilated_p
from kiln.ops.linear.convolution_numbers import ConvDimensionNumbers

FIRST = ("NCHW", "OIHW", "NCHW")
LAST = ("NHWC", "HWIO", "NHWC")


def small(rng: np.random.Generator, shape: Any, dtype: Any) -> np.ndarray:
    """Return small integers, whose sums of products are exact in every type."""
    return rng.integers(-3, 4, shape).astype(dtype)


def random_case(rng: np.random.Generator, dtype: Any) -> tuple[Any, Any, dict[str, Any]]:
    rank = int(rng.integers(1, 4))
    groups, many = int(rng.integers(2, 20)), int(rng.integers(1, 3))
    first, last = tuple(range(rank + 2)), (0, rank + 1, *range(1, rank + 1))
    specs: list[tuple[int, ...]] = [
        [first] * 3,
        [last, (rank + 1, rank, *range(rank)), last],
        [tuple(int(a) for a in rng.permutation(rank + 2)) for _ in range(3)],
    ][int(rng.integers(0, 3))]
    space, kernel = rng.integers(1, (40, 20, 8)[rank - 1], rank), rng.integers(1, 4, rank)
    x = small(rng, (int(rng.integers(1, 4)), groups, *space), dtype)
    w = small(rng, (groups * many, 1, *kernel), dtype)
    params = {
        "window_strides": tuple(int(s) for s in rng.integers(1, 4, rank)),
        "padding": tuple((int(a), int(b)) for a, b in rng.integers(-2, 4, (rank, 2))),
        "lhs_dilation": tuple(int(s) for s in rng.choice([1, 1, 2, 3], rank)),
        "rhs_dilation": tuple(int(s) for s in rng.choice([1, 1, 2], rank)),
        "dimension_numbers": ConvDimensionNumbers(*specs),
        "feature_group_count": groups,
        "batch_group_count": 1,
        "precision": None,
        "preferred_element_type": None,
    }
    x, w = (
        np.ascontiguousarray(a.transpose(np.argsort(s)))
        for a, s in zip((x, w), specs[:2], strict=True)
    )
    return x, w, params


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_random_convolutions_and_their_derivatives(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for _ in range(25):
        x, w, params = random_case(rng, dtype)
        made = kiln.eval_shape(lambda x, w, p=params: conv_general_dilated_p.bind(x, w, **p), x, w)
        ct = small(rng, made.shape, dtype)

        def all_three(x: Any, w: Any, ct: Any, p: Any = params) -> Any:
            y, pull = kiln.vjp(lambda x, w: conv_general_dilated_p.bind(x, w, **p), x, w)
            return y, *pull(ct)

        found = []
        for engine in ("native", "reference"):
            with override(engine=engine, check=engine == "native"):
                found.append(kiln.jit(all_three)(x, w, ct))
        for name, one, other in zip(("y", "x", "w"), *found, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(
                *(np.asarray(v).astype(np.float64) for v in (one, other)), f"{name}, {params}"
            )


def program(function: Any, *operands: Any) -> str:
    with override(engine="native"):
        return kiln.jit(function).lower(*operands).as_text("loops")


def depthwise(x: Any, w: Any, names: Any = LAST, **options: Any) -> Any:
    groups = x.shape[names[0].index("C")]
    options.setdefault("window_strides", (1, 1))
    options.setdefault("padding", "SAME")
    return lax.conv_general_dilated(
        x, w, dimension_numbers=names, feature_group_count=groups, **options
    )


X, W = np.ones((2, 9, 9, 8), np.float32), np.ones((3, 3, 1, 8), np.float32)


def test_what_follows_is_fused() -> None:
    text = program(lambda x, w, b: kiln.nn.relu(depthwise(x, w) + b), X, W, W[0, 0, 0])
    (last,) = [part for part in text.split("nest") if "%o" in part.split("{")[-1]]
    assert "muladd" in last and "max" in last and "kiln_conv" not in text


def test_derivatives_are_nests() -> None:
    text = program(kiln.grad(lambda x, w: (depthwise(x, w) ** 2).sum(), (0, 1)), X, W)
    assert "kiln_conv" not in text


def test_without_padding_nothing_is_copied() -> None:
    assert "%t" not in program(lambda x, w: depthwise(x, w, padding="VALID"), X, W)


def test_what_kernels_compute() -> None:
    """Too large windows, too many phases, other types, and sums in one order for every batch."""
    side = int(MOST_TAPS**0.5)
    for rows in (side, side + 1):
        w = np.ones((rows, side, 1, 8), np.float32)
        text = program(depthwise, X, w)
        assert ("kiln_conv" in text) == (rows * side > MOST_TAPS)
    for holes in (4, 5):
        text = program(lambda x, w, h=holes: depthwise(x, w, lhs_dilation=(h, h)), X, W)
        assert ("kiln_conv" in text) == (holes**2 > MOST_PHASES)
    assert "kiln_conv_c64" in program(depthwise, X.astype(np.complex64), W.astype(np.complex64))
    assert "kiln_conv_i32" in program(depthwise, X.astype(np.int32), W.astype(np.int32))
    with kiln.batch_invariant():
        assert "kiln_conv_f32" in program(depthwise, X, W)


def test_readings_of_an_axis_with_holes() -> None:
    """Every position has one reading, which meets the elements between the holes."""
    for stride, low, holes, dilation in [(1, 1, 2, 1), (2, 0, 3, 2), (3, -2, 4, 6), (2, 3, 2, 2)]:
        count, taps, seen = 11, 5, []
        for reading in readings(count, taps, stride, low, holes, dilation):
            for n in range(reading.count):
                position = reading.first + n * reading.every
                met = {
                    (reading.tap + k * reading.skip, n * reading.stride + k * reading.dilation)
                    for k in range(reading.taps)
                }
                expected = {
                    (k, place // holes + reading.low)
                    for k in range(taps)
                    if (place := position * stride + k * dilation - low) % holes == 0
                }
                assert met == expected
                seen.append(position)
        assert sorted(seen) == [*range(count)]


@pytest.mark.parametrize("names", [FIRST, LAST])
def test_nan_and_infinity_reach_what_they_should(names: Any) -> None:
    x, w = np.ones((1, 7, 7, 8), np.float32), np.ones((3, 3, 1, 8), np.float32)
    x[0, 2, 4, 5], x[0, 6, 0, 1] = np.nan, np.inf
    if names is FIRST:
        x, w = x.transpose(0, 3, 1, 2).copy(), w.transpose(3, 2, 0, 1).copy()
    with override(engine="native"):
        found = np.asarray(kiln.jit(lambda x, w: depthwise(x, w, names))(x, w))
    if names is FIRST:
        found = found.transpose(0, 2, 3, 1)
    nan = np.zeros(found.shape, bool)
    nan[0, 1:4, 3:6, 5] = True
    np.testing.assert_array_equal(np.isnan(found), nan)
    infinite = np.zeros(found.shape, bool)
    infinite[0, 5:, :2, 1] = True
    np.testing.assert_array_equal(np.isinf(found), infinite)


@pytest.mark.parametrize("names", [FIRST, LAST])
def test_the_same_bits_on_any_number_of_threads(names: Any) -> None:
    rng = np.random.default_rng(0)
    shape, kernel = ((2, 40, 40, 64), (3, 3, 1, 64))
    if names is FIRST:
        shape, kernel = (2, 64, 40, 40), (64, 1, 3, 3)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in (shape, kernel))
    found = []
    for threads in (1, 2, 3):
        with override(engine="native"), kiln.num_threads(threads):
            value = kiln.jit(kiln.grad(lambda x, w: (depthwise(x, w, names) ** 2).sum(), (0, 1)))
            found.append([np.asarray(v).tobytes() for v in value(x, w)])
    assert found[0] == found[1] == found[2]
