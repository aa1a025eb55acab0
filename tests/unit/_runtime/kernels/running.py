"""Kernels run on NumPy arrays by their address, whole or in parts, and their meanings."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import _runtime
from kiln.core.primitive import Primitive
from kiln.engines.native.building.kernel_calls import kernel_call
from kiln.ir.types import ShapedArray

_FORM = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def call(symbol: str, buffers: Sequence[np.ndarray], numbers: Sequence[int]) -> int:
    """Call a kernel; return its status."""
    addresses = (ctypes.c_void_p * len(buffers))(*[b.ctypes.data for b in buffers])
    given = (ctypes.c_int64 * len(numbers))(*numbers)
    return _FORM(_runtime.native_symbols()[symbol])(None, addresses, given)


def run(primitive: Primitive, *operands: np.ndarray, parts: int = 1, **params: Any) -> list[Any]:
    """Compute a primitive by its kernel, the rows in some parts."""
    operands = tuple(np.ascontiguousarray(x).reshape(x.shape) for x in operands)
    avals = [ShapedArray(x.shape, x.dtype) for x in operands]
    found = primitive.infer(*avals, **params)
    outs = found if primitive.multiple else [found]
    made = kernel_call(primitive.name, avals, outs, params)
    assert made is not None
    results = [np.full(out.shape, 77, out.dtype) for out in outs]
    bounds = np.linspace(0, made.rows, parts + 1).astype(int)
    for low, high in itertools.pairwise(bounds):
        numbers = made.part(int(low), int(high - low))
        assert call(made.symbol, [*operands, *results], numbers) == 0
    return results


def meaning(primitive: Primitive, *operands: np.ndarray, **params: Any) -> list[Any]:
    """Return what a primitive's NumPy meaning gives."""
    with np.errstate(all="ignore"):
        found = primitive.numpy(*operands, **params)
    return [np.asarray(x) for x in (found if primitive.multiple else [found])]


def same_bits(got: np.ndarray, expected: np.ndarray, any_nan: bool = False) -> None:
    """Assert that arrays are equal bit by bit; nans may differ in theirs if `any_nan`."""
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if any_nan and got.dtype.kind not in "biu":
        is_nan = np.isnan(got)
        np.testing.assert_array_equal(is_nan, np.isnan(expected))
        got, expected = np.where(is_nan, 0, got), np.where(is_nan, 0, expected)
    bits = f"V{got.dtype.itemsize}"
    assert np.ascontiguousarray(got).view(bits).tobytes() == (
        np.ascontiguousarray(expected).view(bits).tobytes()
    )


def sample(dtype: Any, shape: Any, seed: int = 0, few: bool = False) -> np.ndarray:
    """Return numbers of a dtype with its special values among them; `few` distinct ones."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        low, high = (0 if dtype.kind == "u" else -3, 4) if few else _range(dtype)
        return rng.integers(low, high, shape, dtype, endpoint=True)
    if dtype.kind == "c":
        parts = [sample(dtype.type(0).real.dtype, shape, seed + k, few) for k in range(2)]
        out = np.empty(shape, dtype)
        out.real, out.imag = parts
        return out
    x = rng.integers(-3, 4, shape).astype(np.float64) if few else 8 * rng.standard_normal(shape)
    specials = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40])
    chosen = rng.random(shape) < 0.2
    x = np.where(chosen, specials[rng.integers(0, len(specials), shape)], x)
    return x.astype(dtype)


def _range(dtype: Any) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)
