"""Searching in sorted vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.config import override


def sorted_numbers(dtype: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return numbers in order, of which floats have infinities, zeros of both signs and nans."""
    numbers = rng.integers(0, 60, n).astype(dtype)
    if dtype.startswith("f"):
        numbers -= 30
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, np.nan], dtype)
        numbers[: min(n // 2, 6)] = special[: n // 2]
    return np.sort(numbers)


@pytest.mark.parametrize("engine", ["native", "xla", "reference"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searches_are_those_of_numpy(engine: str, dtype: str, side: str) -> None:
    rng = np.random.default_rng(0)
    sizes = (1, 2, 128, 129, 255, 256, 257, 1025) if engine == "native" else (3, 257)
    for n in sizes:
        a = sorted_numbers(dtype, n, rng)
        v = np.concatenate([a[rng.integers(0, n, 37)], sorted_numbers(dtype, 20, rng)])
        expected = np.searchsorted(a, v, side)

        def search(a: Any, v: Any) -> Any:
            return jnp.searchsorted(a, v, side)

        with kiln.enable_x64(True), override(engine=engine):
            np.testing.assert_array_equal(kiln.jit(search)(a, v), expected)


def test_searches_in_and_for_few() -> None:
    table = np.arange(300, dtype=np.float32)
    for shape in [(), (0,), (1,), (2, 0), (3, 5)]:
        found = jnp.searchsorted(table, np.full(shape, 7.5, np.float32))
        assert (found.shape, int(jnp.sum(found))) == (shape, 8 * int(np.prod(shape)))
    assert jnp.searchsorted(table[:0], table[:3]).tolist() == [0, 0, 0]


def test_searches_in_several_tables() -> None:
    tables = np.sort(np.random.default_rng(1).random((4, 200), np.float32), axis=1)
    values = np.random.default_rng(2).random((4, 9), np.float32)
    found = kiln.jit(kiln.vmap(jnp.searchsorted))(tables, values)
    expected = [np.searchsorted(t, v) for t, v in zip(tables, values, strict=True)]
    np.testing.assert_array_equal(found, expected)
