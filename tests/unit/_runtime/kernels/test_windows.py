"""Kernels of the winners of sliding windows agree with the NumPy meanings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kiln.base import dtypes
from kiln.ops.elements.elementwise import ge_p, le_p
from kiln.ops.reductions.window import (
    geometry,
    select_and_gather_add_p,
    select_and_scatter_add_p,
)
from tests.unit._runtime.kernels.running import call, meaning, run, sample

BFLOAT = dtypes.bfloat16
NUMBERS = [*"bhilBHILefdFD", BFLOAT]


def params_of(
    dims: Any, strides: Any, padding: Any, base: Any = None, dilation: Any = None
) -> dict[str, Any]:
    return geometry(dims, strides, padding, base, dilation).params


CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((9,), params_of((3,), (1,), ((0, 0),))),
    ((9,), params_of((3,), (2,), ((1, 2),))),
    ((4, 9), params_of((1, 4), (1, 3), ((0, 0), (-1, 2)))),
    ((2, 7, 8), params_of((1, 3, 3), (1, 2, 2), ((0, 0), (1, 1), (1, 1)))),
    ((7, 8), params_of((2, 3), (1, 2), ((2, 0), (1, 3)), (2, 3), (3, 2))),
    ((0, 5), params_of((2, 2), (1, 1), ((1, 2), (0, 0)))),
    ((3, 2), params_of((5, 1), (1, 1), ((0, 0), (0, 0)))),
    ((2, 30, 3), params_of((1, 20, 2), (1, 1, 1), ((0, 0), (19, 0), (0, 1)))),
]


def agree(got: np.ndarray, expected: np.ndarray, ulps: int) -> None:
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected)
        return
    wide = "D" if got.dtype.kind == "c" else "d"
    eps = float(dtypes.finfo(got.dtype).eps)
    np.testing.assert_allclose(
        got.astype(wide), expected.astype(wide), rtol=ulps * eps, atol=ulps * eps
    )


@pytest.mark.parametrize(("shape", "params"), CASES)
@pytest.mark.parametrize("dtype", ["?", *NUMBERS])
@pytest.mark.parametrize("select", [ge_p, le_p])
def test_winners(dtype: Any, shape: tuple[int, ...], params: Any, select: Any) -> None:
    # The library compares the parts of complex nans in an order of its own.
    x = sample(dtype, shape, 3, few=True)
    if x.dtype.kind == "c":
        x = np.where(np.isnan(x), 1, x).astype(dtype)
    for moved in ("f", "D", BFLOAT):
        t = np.arange(1, x.size + 1).reshape(shape).astype(moved)
        given = {"select_prim": select, **params}
        got = run(select_and_gather_add_p, t, x, parts=2, **given)[0]
        agree(got, meaning(select_and_gather_add_p, t, x, **given)[0], 0)
        if geometry(**params).is_dense:
            counts = geometry(**params).counts(shape)
            source = np.arange(1, np.prod(counts) + 1).reshape(counts).astype(moved)
            dense = {k: v for k, v in given.items() if "dilation" not in k}
            got = run(select_and_scatter_add_p, source, x, **dense)[0]
            agree(got, meaning(select_and_scatter_add_p, source, x, **dense)[0], 1)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_windows(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        numbers = st.integers(low, high)
        return tuple(data.draw(st.lists(numbers, min_size=rank, max_size=rank)))

    shape = each(0, 6)
    padding = tuple(zip(each(-2, 3), each(-2, 3), strict=True))
    params = params_of(each(1, 4), each(1, 3), padding, each(1, 3), each(1, 3))
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    given = {"select_prim": ge_p, **params}
    agree(
        run(select_and_gather_add_p, x + 1, x, **given)[0],
        meaning(select_and_gather_add_p, x + 1, x, **given)[0],
        0,
    )


def test_what_is_not_supported() -> None:
    x = np.zeros(3, np.float32)
    for name in ("select_and_gather_add", "select_and_scatter_add"):
        assert call(name, [x, x.copy(), x.copy()], [0, 1, 11, 1, 17]) == 2
