"""Searching in sorted vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime
from kiln.base.options.config import override
from kiln.execution.eager import EvalTrace


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


@pytest.mark.parametrize(
    ("run", "most"),
    [
        (lambda x, table: jnp.searchsorted(table, x), 0),
        (jnp.isin, 1),
        (lambda x, table: jnp.interp(x, table, table), 14),
        (lambda x, table: jnp.histogram(x), 14),
        (lambda x, table: jnp.histogram2d(x, x), 28),
        (lambda x, table: jnp.unique(x), 27),
        (lambda x, table: jnp.median(x), 5),
        (lambda x, table: jnp.nanpercentile(x, 30.0), 5),
        (lambda x, table: jnp.quantile(x, 0.3, method="inverted_cdf"), 5),
    ],
)
def test_many_passes_over_values_are_one_program(run: Callable[..., Any], most: int) -> None:
    """Run eagerly one by one, each would go through memory."""
    x = jnp.asarray(np.random.default_rng(3).random(1000, np.float32))
    table = jnp.sort(x)
    count = 0
    of_one = EvalTrace.run

    def counted(trace: EvalTrace, *args: Any) -> Any:
        nonlocal count
        count += 1
        return of_one(trace, *args)

    for _ in range(3):
        run(x, table)
    before = _runtime.plan_statistics()["runs"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EvalTrace, "run", counted)
        run(x, table)
    assert count + _runtime.plan_statistics()["runs"] - before <= most


def test_histograms_and_interpolations_have_the_same_derivatives_eagerly() -> None:
    rng = np.random.default_rng(4)
    x, weights, direction = rng.random((3, 300)).astype(np.float32)
    points, heights = np.sort(rng.random(9).astype(np.float32)), rng.random(9).astype(np.float32)

    def histogram(weights: Any) -> Any:
        return (jnp.histogram(x, 7, weights=weights)[0] ** 2).sum()

    def interpolated(x: Any, heights: Any) -> Any:
        return (jnp.interp(x, points, heights) * direction).sum()

    counts = np.histogram(x, 7, weights=weights)
    place = np.clip(np.searchsorted(counts[1], x, "right") - 1, 0, 6)
    expected = 2 * counts[0][place]
    for wrap in (lambda f: f, kiln.jit):
        np.testing.assert_allclose(kiln.grad(wrap(histogram))(weights), expected, rtol=1e-5)
        slope, per_height = kiln.grad(wrap(interpolated), (0, 1))(x, heights)
        inside = (x > points[0]) & (x < points[-1])
        place = np.clip(np.searchsorted(points, x, "right"), 1, 8)
        slopes = np.diff(heights) / np.diff(points)
        np.testing.assert_allclose(
            slope, np.where(inside, slopes[place - 1] * direction, 0), rtol=2e-4, atol=1e-5
        )
        np.testing.assert_allclose(per_height.sum(), direction.sum(), rtol=1e-4)


@pytest.mark.parametrize("shape", [(8,), (8, 3), (8, 0), (0, 3)])
@pytest.mark.parametrize("method", ["linear", "nearest", "midpoint", "inverted_cdf"])
def test_quantiles_of_no_chance_are_none(shape: tuple[int, ...], method: str) -> None:
    for quantile in (jnp.quantile, jnp.nanquantile):
        found = quantile(jnp.ones(shape), jnp.zeros(0), axis=0, method=method)
        assert found.shape == (0, *shape[1:])
