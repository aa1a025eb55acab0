"""Elements at a small stride are shuffled out of whole vectors; none after the last is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.engines.native.llvm import strided

SIZES = (1, 2, 3, 7, 8, 15, 16, 17, 28, 31, 33, 63, 64, 65, 100, 257)


def text_of(fun: Callable[..., Any], *args: Any) -> str:
    return str(kiln.jit(fun).lower(*args).compile().as_text("llvm"))


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("stride", strided.STRIDES)
def test_shuffles_find_every_element(stride: int, width: int) -> None:
    """Of a memory that ends with the last element, or with the last of its group."""
    for wanted in range(1, width + 1):
        for phase in (None, *range(stride)):
            first = phase or 0
            last = first + (wanted - 1) * stride if phase is None else stride * wanted - 1
            parts, values = [], {}
            for window in strided.windows(stride, phase, width, wanted):
                assert window.start >= 0 and window.start + window.length - 1 <= last
                assert max(window.places, default=0) < window.length
                name = f"w{window.start}"
                values[name] = [window.start + i for i in range(width)]
                parts.append(strided.Part(name, window.places))

            def shuffle(x: str, y: str, lanes: list[int], values: Any = values) -> str:
                both = values[x] + (values[y] if y != "poison" else [])
                name = f"s{len(values)}"
                values[name] = [both[lane] for lane in lanes]
                return name

            found = values[strided.combined(parts, stride, width, shuffle)]
            assert found[:wanted] == list(range(first, first + wanted * stride, stride))
            assert set(found[wanted:]) <= set(found[:wanted])


@pytest.mark.parametrize("generator", ["kiln", "llvm"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.float16])
def test_columns(dtype: Any, generator: str) -> None:
    x = np.arange(3 * 1100).reshape(3, 1100).astype(dtype)

    def columns(x: Any) -> Any:
        parts = [(x[:, : 300 * step], step) for step in (2, 3, 4, 5, 8)] + [(x[:, :77], -2)]
        parts += [(x[:, :size], 2) for size in SIZES] + [(x[:, :size], 3) for size in SIZES]
        return [part[:, i::step] * 2 for part, step in parts for i in range(2)]

    with override(code_generator=generator, engine="native", enable_x64=True):
        for found, want in zip(kiln.jit(columns)(x), columns(x), strict=True):
            np.testing.assert_array_equal(np.asarray(found), want)


@pytest.mark.parametrize("generator", ["kiln", "llvm"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers(dtype: Any, generator: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.integers(-9, 9, 300) + 1j * rng.integers(-9, 9, 300)).astype(dtype)

    def products(x: Any) -> Any:
        return [x[:size] * x[::-1][:size] + x[:size].conj() for size in SIZES]

    with override(code_generator=generator, engine="native", enable_x64=True):
        for found, want in zip(kiln.jit(products)(x), products(x), strict=True):
            np.testing.assert_array_equal(np.asarray(found), want)


def test_what_every_iteration_reads_is_read_once() -> None:
    """Neighbors share their vectors, and stores that alternate are of whole vectors."""
    x = jnp.ones(4096, np.complex64)
    text = text_of(lambda x: x * x + 1, x)
    assert "gather" not in text and "scatter" not in text
    assert len(re.findall(r"= load <\d+ x float>", text)) == 2

    pooled = text_of(
        # Two vectors of results for each row, from two rows.
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID"),
        jnp.ones((8, 64, 64)),
    )
    assert "gather" not in pooled
    assert len(re.findall(r"= load <\d+ x float>", pooled)) == 8


def test_what_is_gathered_still() -> None:
    """Large strides, short elements, elements of which others are written, indices of values."""
    x, at = jnp.ones(4096), jnp.arange(512)
    assert "masked.gather" in text_of(lambda x: x[::5] + 1, x)
    assert "masked.gather" in text_of(lambda x: x[::2] + 1, x.astype(np.float16))
    assert "masked.gather" in text_of(lambda x, at: x[at] + 1, x, at)
    assert "masked.gather" not in text_of(lambda x: x[::4] + 1, x)


def test_named_sizes() -> None:
    """What is left of a size that a call supplies is gathered, under a mask."""
    named = kiln.jit(lambda x: x[:, 0] * x[:, 1], abstracted_axes=({0: "n"},))
    for size in SIZES:
        x = jnp.arange(2.0 * size).reshape(size, 2)
        found = named(x)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(x)[:, 0] * np.asarray(x)[:, 1])


@pytest.mark.parametrize("generator", ["kiln", "llvm"])
def test_what_takes_turns_is_stored_together(generator: str) -> None:
    """Results of one nest, and of several that write alternating elements of one array."""
    x = np.arange(300, dtype=np.float32)

    def stacked(m: Any, x: Any) -> Any:
        counts = [(count, size) for count in (2, 3, 4, 5, 8) for size in (16, 100, 257)]
        return [m.stack([x[:n] * i for i in range(count)], -1) for count, n in counts]

    with override(code_generator=generator, engine="native"):
        found = kiln.jit(lambda x: stacked(jnp, x))(x)
        for one, want in zip(found, stacked(np, x), strict=True):
            np.testing.assert_array_equal(np.asarray(one), want)
    for count, is_scattered in [(2, False), (3, False), (4, False), (5, True)]:
        text = text_of(lambda x, n=count: jnp.stack([x * i for i in range(n)], -1), jnp.ones(4096))
        assert ("scatter" in text) == is_scattered
    scan = text_of(lambda x: lax.associative_scan(jnp.add, x), jnp.ones(4096))
    assert not re.search(r"masked\.scatter\.v\d\d", scan)
