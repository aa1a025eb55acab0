"""Gathers and scatters with random dimension numbers, modes and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kiln.ops.indexing import indexing as ops
from kiln.ops.indexing.dimension_numbers import CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS, Window
from tests.unit.engines.native.lowerings.running import assert_meaning, results

MODES = (CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS)
INDEX_TYPES = (np.int8, np.uint8, np.int32, np.uint32)
DTYPES = (np.float32, np.int32, np.complex64, ml_dtypes.bfloat16, np.bool_)
SCATTERS = (
    ops.scatter,
    ops.scatter_add,
    ops.scatter_mul,
    ops.scatter_min,
    ops.scatter_max,
)


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    drawn = rng.normal(size=shape) * 3
    if dtype is np.bool_:
        return np.asarray(drawn > 0)
    if dtype is np.complex64:
        drawn = drawn + 1j * rng.normal(size=shape)
    return np.asarray(drawn).astype(dtype)


def _window(
    rng: np.random.Generator,
) -> tuple[Window, tuple[int, ...], list[int], tuple[int, ...]]:
    """Draw how windows lie in an operand: also its shape, their sizes, and how many there are."""
    rank = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, 7, rank))
    batches = int(rng.integers(0, 2)) if rank > 1 else 0
    order = [int(d) for d in rng.permutation(rank)]
    batching, rest = tuple(order[:batches]), order[batches:]
    coordinates = tuple(rest[: int(rng.integers(0, len(rest) + 1))])
    numbered = [int(n) for n in rng.integers(1, 6, int(rng.integers(batches, 3)))]
    along = tuple(int(d) for d in rng.permutation(len(numbered))[:batches])
    for ours, theirs in zip(batching, along, strict=True):
        numbered[theirs] = shape[ours]
    sizes = [
        1 if d in batching or rng.random() < 0.3 else int(rng.integers(1, shape[d] + 1))
        for d in range(rank)
    ]
    dropped = tuple(
        d for d in range(rank) if d not in batching and sizes[d] == 1 and rng.random() < 0.5
    )
    kept = rank - len(dropped) - batches
    places = rng.permutation(len(numbered) + kept)[:kept]
    placed = tuple(sorted(int(d) for d in places))
    windows = Window(placed, dropped, coordinates, batching, along)
    return windows, shape, sizes, (*numbered, len(coordinates))


@pytest.mark.parametrize("seed", range(25))
def test_windows_are_read_and_written_as_by_the_meaning(seed: int) -> None:
    rng = np.random.default_rng(seed)
    window, shape, sizes, count = _window(rng)
    mode, dtype = MODES[rng.integers(3)], DTYPES[rng.integers(5)]
    drawn = rng.integers(-3, 9, count)
    kind = INDEX_TYPES[rng.integers(4)]
    indices = (drawn if np.issubdtype(kind, np.signedinteger) else abs(drawn)).astype(kind)
    x = _values(rng, shape, dtype)

    def gathered(x: Any, i: Any) -> Any:
        return ops.gather(x, i, window.gather(), tuple(sizes), mode=mode)

    found, expected = results(gathered, x, indices)
    np.testing.assert_array_equal(found.astype(np.complex128), expected.astype(np.complex128))
    updates = _values(rng, expected.shape, dtype)
    tolerance = 3e-2 if dtype is ml_dtypes.bfloat16 else 1e-4
    for scatter in SCATTERS:
        _check_scatter(scatter, window, mode, (x, indices, updates), tolerance)


def _check_scatter(
    scatter: Callable[..., Any], window: Window, mode: Any, operands: Any, tolerance: float
) -> None:
    def scattered(x: Any, i: Any, u: Any) -> Any:
        return scatter(x, i, u, window.scatter(), mode=mode)

    assert_meaning(scattered, *operands, tolerance=tolerance)


@pytest.mark.parametrize("scatter", SCATTERS[1:])
@pytest.mark.parametrize("width", [0, 4])
def test_many_updates_are_shared_among_copies(scatter: Any, width: int) -> None:
    rng = np.random.default_rng(0)
    count = (1 << 15) + 11
    inner = (width,) if width else ()
    window = Window((1,) if width else (), (0,), (0,), (), ())
    x = rng.integers(-5, 6, (7, *inner)).astype(np.int32)
    indices = rng.integers(-1, 8, (count, 1)).astype(np.int32)
    updates = rng.integers(-5, 6, (count, *inner)).astype(np.int32)
    _check_scatter(scatter, window, FILL_OR_DROP, (x, indices, updates), 0)


def test_unique_indices_may_be_written_in_any_order() -> None:
    rng = np.random.default_rng(0)
    indices = rng.permutation(100)[:60].astype(np.int32)[:, None]
    x, updates = (rng.normal(size=n).astype(np.float32) for n in (100, 60))
    window = Window((), (0,), (0,), (), ())

    def scattered(x: Any, i: Any, u: Any) -> Any:
        return ops.scatter_add(x, i, u, window.scatter(), unique_indices=True)

    assert_meaning(scattered, x, indices, updates)


def test_one_place_is_written_by_unique_indices() -> None:
    window = Window((), (0,), (0,), (), ())
    operands = (np.zeros(1, np.int32), np.array([[3], [0], [2]]), np.array([5, 6, 7], np.int32))

    def scattered(x: Any, i: Any, u: Any) -> Any:
        return ops.scatter(x, i, u, window.scatter(), unique_indices=True)

    assert_meaning(scattered, *operands)
