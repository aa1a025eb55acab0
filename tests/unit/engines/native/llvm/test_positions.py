"""Positions of extremes: the first of equals, nan before all, in vectors of either axis."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override

DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8)


def drawn(dtype: type, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return numbers of which many are equal, with rows of infinities and nans."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 5, shape).astype(dtype)
    if np.dtype(dtype).kind in "iu" or x.size == 0:
        return x
    special = rng.integers(0, 40, shape)
    for number, value in enumerate((np.nan, np.inf, -np.inf, -0.0)):
        x[special == number] = value
    for row, value in zip(x, (np.inf, -np.inf, np.nan), strict=False):
        row[...] = value
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1),
        (3, 1),
        (200, 2),
        (200, 16),
        (131, 17),
        (64, 33),
        (5, 63),
        (5, 64),
        (4, 65),
        (7, 1001),
    ],
)
def test_positions_are_those_of_numpy(dtype: type, shape: tuple[int, ...]) -> None:
    x = drawn(dtype, shape, sum(shape))
    wide = x.astype(np.float64)
    with kiln.enable_x64(True), override(engine="native", check=True):
        for found, expected in ((jnp.argmin, np.argmin), (jnp.argmax, np.argmax)):
            for axis in (0, 1, None):
                got = kiln.jit(lambda x, f=found, a=axis: f(x, a))(x)
                np.testing.assert_array_equal(got, expected(wide, axis))


def test_positions_of_what_is_computed() -> None:
    x, y = drawn(np.float32, (300, 12), 1), drawn(np.float32, (4, 12), 2)[3]

    def both(x: np.ndarray, y: np.ndarray) -> tuple[kiln.Array, kiln.Array]:
        z = jnp.abs(x - y) * 2
        return jnp.argmin(z, 1), jnp.max(z, 1)

    with override(engine="native", check=True):
        place, most = kiln.jit(both)(x, y)
    with np.errstate(invalid="ignore"):
        z = np.abs(x - y) * 2
    np.testing.assert_array_equal(place, np.argmin(z, 1))
    np.testing.assert_array_equal(most, np.max(z, 1))
