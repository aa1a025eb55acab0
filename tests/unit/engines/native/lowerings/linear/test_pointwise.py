"""Convolutions by windows of one element are products."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.base.options.config import override
from tests.unit.engines.native.lowerings.running import assert_meaning

LAYOUTS = ("NCHW", "NHWC", "CHWN", "HCWN")
RNG = np.random.default_rng(0)


def drawn(layout: str, **sizes: int) -> np.ndarray:
    return RNG.normal(size=[sizes[c] for c in layout]).astype(np.float32)


def symbols(f: Any, *args: Any) -> list[str]:
    """Return the kernels that a program calls."""
    with override(engine="native"):
        found = str(kiln.jit(f).lower(*args).as_text("loops"))
    return [line.split(" = ")[1].split("(")[0] for line in found.splitlines() if "= kiln_" in line]


@pytest.mark.parametrize("kernel", ["OIHW", "HWIO"])
@pytest.mark.parametrize("out", ["NCHW", "NHWC", "CHWN"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 2)])
def test_products(layout: str, out: str, kernel: str, strides: tuple[int, int]) -> None:
    x, w = drawn(layout, N=2, C=24, H=13, W=12), drawn(kernel, O=20, I=24, H=1, W=1)
    f = lambda x, w: lax.conv_general_dilated(
        x, w, strides, "VALID", dimension_numbers=(layout, kernel, out)
    )
    found = symbols(f, x, w)
    assert "kiln_gemm_f32" in found
    assert "kiln_conv_f32" not in found
    assert_meaning(f, x, w, tolerance=1e-4)


@pytest.mark.parametrize("out", ["NCHW", "NHWC", "CHWN"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("window", "options"),
    [
        ((7, 6), {}),
        ((7, 1), {"window_strides": (1, 2)}),
        ((3, 3), {"rhs_dilation": (3, 2), "padding": ((0, 0), (0, -1))}),
    ],
)
def test_windows_of_the_whole_operand(
    layout: str, out: str, window: tuple[int, int], options: dict[str, Any]
) -> None:
    """As in the derivative by a kernel of one element."""
    x, w = drawn(layout, N=3, C=5, H=7, W=6), drawn("IHWO", O=8, I=5, H=window[0], W=window[1])
    options = {"window_strides": (1, 1), "padding": ((0, 0), (0, 0)), **options}
    f = lambda x, w: lax.conv_general_dilated(
        x, w, dimension_numbers=(layout, "IHWO", out), **options
    )
    found = symbols(f, x, w)
    assert "kiln_conv_f32" not in found
    assert_meaning(f, x, w, tolerance=1e-4)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_nothing_is_copied_where_features_are_first_or_last(layout: str) -> None:
    x, w = drawn(layout, N=3, C=32, H=16, W=16), drawn("OIHW", O=40, I=32, H=1, W=1)
    f = lambda x, w: lax.conv_general_dilated(
        x, w, (1, 1), "VALID", dimension_numbers=(layout, "OIHW", layout)
    )
    assert symbols(f, x, w) == ["kiln_gemm_f32"]


@pytest.mark.parametrize(
    "options",
    [
        {"padding": ((1, 0), (0, 0))},
        {"padding": ((-1, 0), (0, 0))},
        {"padding": "VALID", "lhs_dilation": (2, 1)},
        {"padding": "VALID", "feature_group_count": 2},
        {"padding": "VALID", "batch_group_count": 2},
    ],
)
def test_others(options: Any) -> None:
    x = drawn("NCHW", N=4, C=24, H=9, W=8)
    groups = options.get("feature_group_count", 1)
    w = drawn("OIHW", O=20, I=24 // groups, H=1, W=1)
    f = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), **options)
    assert "kiln_gemm_f32" not in symbols(f, x, w)
    assert_meaning(f, x, w, tolerance=1e-4)


def test_dilated_windows_of_one_element() -> None:
    x, w = drawn("NCHW", N=2, C=24, H=13, W=12), drawn("OIHW", O=20, I=24, H=1, W=1)
    f = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", rhs_dilation=(2, 3))
    assert symbols(f, x, w) == ["kiln_gemm_f32"]
    assert_meaning(f, x, w, tolerance=1e-4)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.int32, np.complex64])
def test_dtypes(dtype: Any) -> None:
    x = (drawn("NCHW", N=2, C=24, H=13, W=12) * 3).astype(dtype)
    w = (drawn("OIHW", O=20, I=24, H=1, W=1) * 3).astype(dtype)
    f = lambda x, w: lax.conv_general_dilated(x, w, (2, 1), "VALID")
    assert_meaning(f, x, w, tolerance=3e-2)


def test_one_axis_and_three_axes() -> None:
    for axes in (1, 3):
        x = RNG.normal(size=(2, 24, *(9, 8, 7)[:axes])).astype(np.float32)
        w = RNG.normal(size=(20, 24, *[1] * axes)).astype(np.float32)
        f = lambda x, w: lax.conv(x, w, (2,) * len(x.shape[2:]), "VALID")
        assert_meaning(f, x, w, tolerance=1e-4)


@pytest.mark.parametrize("argument", [0, 1])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_derivatives(strides: tuple[int, int], argument: int) -> None:
    x, w = drawn("NCHW", N=2, C=24, H=13, W=12), drawn("OIHW", O=20, I=24, H=1, W=1)
    f = lambda x, w: (lax.conv(x, w, strides, "VALID") ** 2).sum()
    assert_meaning(kiln.grad(f, argument), x, w, tolerance=1e-3)


def test_more_positions_than_windows_fit() -> None:
    """A stride may leave elements at the end unread."""
    x, w = drawn("NCHW", N=1, C=24, H=10, W=10), drawn("OIHW", O=20, I=24, H=1, W=1)
    f = lambda x, w: lax.conv(x, w, (4, 7), "VALID")
    assert_meaning(f, x, w, tolerance=1e-4)
