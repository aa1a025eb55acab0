"""Cumulative reductions: rows are a kernel, columns are loops over blocks of them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.options.config import override
from tests.unit._runtime.kernels.running import sample
from tests.unit._runtime.kernels.test_windows import agree
from tests.unit.engines.native.lowerings.running import results

NAMES = ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]
SHAPES = [
    ((5, 7), 0),
    ((1, 70), 0),
    ((9, 130), 0),
    ((3, 20, 3), 1),
    ((9, 6, 70), 1),
    ((2, 3, 4, 5), 1),
    ((3, 0, 2), 1),
    ((0, 3), 0),
]


def text_of(function: Any, x: Any) -> str:
    with override(engine="native"):
        return str(kiln.jit(function).lower(x).as_text("loops"))


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_columns(name: str, shape: tuple[int, ...], axis: int) -> None:
    kinds = ["e", dtypes.bfloat16, "f", "d"] if name == "cumlogsumexp" else ["b", "Q", "e", "f"]
    for dtype in [*kinds, *(["F"] if name in ("cumsum", "cumprod") else [])]:
        x = np.random.default_rng(0).integers(1, 3, shape).astype(dtype)
        tolerance = 8 if np.dtype(dtype).itemsize > 2 else 40
        for reverse in (False, True):
            run = functools.partial(getattr(lax, name), axis=axis, reverse=reverse)
            agree(*results(run, x), tolerance)


@pytest.mark.parametrize("name", ["cummax", "cummin", "cumlogsumexp"])
def test_special_values(name: str) -> None:
    x = sample("f", (40, 70), 1)
    agree(*results(lambda x: getattr(lax, name)(x, 0), x), 8)


def test_which_are_a_kernel() -> None:
    x = np.zeros((4, 6, 3), np.float32)
    for axis, calls in ((0, 0), (1, 0), (2, 1)):
        assert text_of(lambda x: jnp.cumsum(x, axis), x).count("cumulative(") == calls  # noqa: B023
    assert "cumulative(" not in text_of(lambda x: jnp.cumsum(x, 1), x[..., :2] * 1j)
    assert "cumulative(" in text_of(lambda x: jnp.cumprod(x, 1), x * 1j)


def test_blocks_of_columns() -> None:
    """Threads share whole blocks; the remaining columns are loops of their own."""
    text = text_of(lambda x: jnp.cumsum(x, 0), np.zeros((50, 2 * 64 + 5), np.float32))
    assert text.count("parallel") == 1
    assert text.count("loop") == 2


def test_narrow_floats_are_rounded_once() -> None:
    x = np.array([[60000, 1], [60000, 1], [-60000, 1]], np.float16)
    found, _ = results(lambda x: jnp.cumsum(x, 0), x)
    np.testing.assert_array_equal(found[:, 0].astype(float), [60000, np.inf, 60000])


@pytest.mark.parametrize(("shape", "axis"), [((300, 1000), 0), ((16, 100, 70), 1)])
def test_the_same_bits_on_any_number_of_threads(shape: Any, axis: int) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    found = []
    for n in (1, 2, 3):
        with override(engine="native"), kiln.num_threads(n):
            found.append(np.asarray(kiln.jit(lambda x: jnp.cumsum(x, axis))(x)).tobytes())
    assert len(set(found)) == 1


@pytest.mark.parametrize("axis", [0, 1])
def test_named_axes(axis: int) -> None:
    sized = kiln.jit(lambda x: jnp.cumsum(2 * x, axis), abstracted_axes=("n", "m"))
    for shape in ((3, 4), (1, 1), (200, 3), (2, 130), (7, 64)):
        x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
        with override(engine="native"):
            np.testing.assert_array_equal(np.asarray(sized(x)), np.cumsum(2 * x, axis))
