"""Transposes in memory, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit._runtime.linear.kernel_calls import run_kernel

DTYPES = [np.uint8, np.uint16, np.uint32, np.uint64, np.complex128]


def transposed(x: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    out = np.full([x.shape[a] for a in order], 77, x.dtype)
    run_kernel("kiln_transpose", [x, out], [x.itemsize.bit_length() - 1, x.ndim, *x.shape, *order])
    return out


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_orders(dtype: type) -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        rank = int(rng.integers(0, 6))
        likely = [0.02, 0.18, *[0.16] * 5]
        shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 5, 8, 17], rank, p=likely))
        x = (rng.integers(0, 255, shape)).astype(dtype)
        order = tuple(int(a) for a in rng.permutation(rank))
        np.testing.assert_array_equal(transposed(x, order), x.transpose(order))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(64, 64), (100, 333), (1, 50), (700, 3), (16, 4099)])
def test_matrices(dtype: type, shape: tuple[int, int]) -> None:
    x = np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype)
    np.testing.assert_array_equal(transposed(x, (1, 0)), x.T)


def test_blocks() -> None:
    x = np.arange(3 * 600 * 700, dtype=np.float32).reshape((3, 600, 700))
    for order in [(0, 2, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1)]:
        np.testing.assert_array_equal(transposed(x, order), x.transpose(order))
