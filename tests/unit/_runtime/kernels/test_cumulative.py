"""Kernels of cumulative reductions agree with the NumPy meanings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base import dtypes
from kiln.engines.native.building.kernel_calls import ELEMENTS, kernel_call
from kiln.ir.types import ShapedArray
from kiln.ops.reductions import cumulative
from tests.unit._runtime.kernels.running import call, meaning, run, same_bits, sample

BFLOAT = dtypes.bfloat16
FLOATS = ["e", BFLOAT, "f", "d"]
SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((0,), 0),
    ((1,), 0),
    ((7,), 0),
    ((299,), 0),
    ((3, 0), 1),
    ((3, 64, 1), 1),
    ((30, 130), 1),
]
COLUMNS = [((3, 0, 2), 1), ((3, 64, 19), 1), ((45, 600), 0)]


def plain(dtype: Any, shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.9, 1.1, shape)
    if np.dtype(dtype).kind == "c":
        return (x + 0.1j * rng.standard_normal(shape)).astype(dtype)
    return x.astype(dtype)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", "bhilBHIL")
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
def test_integers(name: str, dtype: str, shape: Any, axis: int, reverse: bool) -> None:
    prim = getattr(cumulative, f"{name}_p")
    x = sample(dtype, shape, 1)
    params = {"axis": axis, "reverse": reverse}
    same_bits(run(prim, x, parts=3, **params)[0], meaning(prim, x, **params)[0])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", [*FLOATS, "F", "D"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cumlogsumexp"])
def test_sums_and_products(name: str, dtype: Any, shape: Any, axis: int, reverse: bool) -> None:
    prim = getattr(cumulative, f"{name}_p")
    if name == "cumlogsumexp" and dtype in ("F", "D"):
        aval = ShapedArray(shape, np.dtype(dtype))
        assert kernel_call(name, [aval], [aval], {"axis": axis, "reverse": reverse}) is None
        return
    params = {"axis": axis, "reverse": reverse}
    x = plain(dtype, shape, 2)
    got, expected = run(prim, x, parts=2, **params)[0], meaning(prim, x, **params)[0]
    assert got.dtype == x.dtype
    wide = "D" if x.dtype.kind == "c" else "d"
    np.testing.assert_allclose(
        got.astype(wide), expected.astype(wide), rtol=64 * float(dtypes.finfo(dtype).eps)
    )
    # Where products overflow depends on their order.
    x = sample(dtype, shape, 3)
    if x.dtype.kind != "c" and name != "cumprod":
        got, expected = run(prim, x, **params)[0], meaning(prim, x, **params)[0]
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", [*FLOATS, "F", "D"])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_extremes(name: str, dtype: Any, shape: Any, axis: int, reverse: bool) -> None:
    prim = getattr(cumulative, f"{name}_p")
    params = {"axis": axis, "reverse": reverse}
    for x in (sample(dtype, shape, 4), sample(dtype, shape, 5, True), plain(dtype, shape, 6)):
        few_nans = np.where(np.random.default_rng(7).random(shape) < 0.02, x, x.dtype.type(3))
        few_nans = few_nans.astype(dtype)
        for y in (x, few_nans, np.where(np.isnan(x), 1, x).astype(dtype)):
            got, expected = run(prim, y, **params)[0], meaning(prim, y, **params)[0]
            np.testing.assert_array_equal(got.astype("D"), expected.astype("D"))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), COLUMNS)
@pytest.mark.parametrize("dtype", ["F", "D"])
@pytest.mark.parametrize("name", ["cumprod", "cummax", "cummin"])
def test_columns_of_complex_numbers(
    name: str, dtype: Any, shape: Any, axis: int, reverse: bool
) -> None:
    prim, x = getattr(cumulative, f"{name}_p"), plain(dtype, shape, 2)
    params = {"axis": axis, "reverse": reverse}
    got, expected = run(prim, x, parts=3, **params)[0], meaning(prim, x, **params)[0]
    np.testing.assert_allclose(got, expected, rtol=64 * float(dtypes.finfo(dtype).eps))


def test_what_is_not_supported() -> None:
    # Columns of real numbers are loops of compiled code.
    x = np.zeros((3, 2), np.float32)
    assert call("cumulative", [x, x.copy()], [0, 2, 3, 2, 0, 0, ELEMENTS["float32"]]) == 2
    x = np.zeros(3, np.bool_)
    assert call("cumulative", [x, x.copy()], [0, 1, 3, 1, 0, 0, ELEMENTS["bool"]]) == 2
    assert call("cumulative", [x, x.copy()], [0, 1, 3, 1, 9, 0, ELEMENTS["float32"]]) == 2
