"""Parts of floats are NumPy's to the bit, subnormal numbers included, eager and jitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp

EDGES = {2: (0x0001, 0x03FF, 0x0400, 0x7BFF, 0x7C00, 0x7E00), 4: (1, 0x7FFFFF, 0x800000)}


def drawn(dtype: Any) -> np.ndarray:
    """Return floats of all exponents and signs: every bit is drawn by itself."""
    draw = np.random.default_rng(0)
    size = np.dtype(dtype).itemsize
    whole = np.dtype(f"u{size}")
    bits = draw.integers(0, 1 << 8 * size - 1, 2000, dtype=np.uint64, endpoint=True)
    small = draw.integers(0, 1 << np.finfo(dtype).nmant, 2000, dtype=np.uint64)
    edges = np.array(EDGES.get(size, (1,)), np.uint64)
    found = np.concatenate([bits, small, edges, np.zeros(1, np.uint64)]).astype(whole)
    numbers = found.view(dtype)
    return np.concatenate([numbers, -numbers])


def assert_same(found: Any, expected: np.ndarray) -> None:
    """Compare every bit, but for those of a nan."""
    found = np.asarray(found)
    assert found.dtype == expected.dtype
    if expected.dtype.kind == "f":
        there = ~np.isnan(expected)
        assert (np.isnan(found) == ~there).all()
        found, expected = found[there], expected[there]
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_as_numpy_to_the_bit(dtype: Any, jitted: bool) -> None:
    x = drawn(dtype)
    steps = np.arange(x.size, dtype=np.int32) % 601 - 300
    wrap = kiln.jit if jitted else lambda f: f
    with kiln.enable_x64(dtype is np.float64), np.errstate(all="ignore"):
        assert_same(wrap(jnp.signbit)(x), np.signbit(x))
        assert_same(wrap(jnp.ldexp)(x, steps), np.ldexp(x, steps))
        finite = np.isfinite(x)
        mantissa, exponent = wrap(jnp.frexp)(x)
        expected = np.frexp(x)
        assert_same(mantissa, expected[0])
        assert_same(np.asarray(exponent)[finite], expected[1][finite])
        assert not np.asarray(exponent)[~finite].any()
        # That of zero has its sign in kiln, and none in NumPy.
        some = x != 0
        assert_same(wrap(jnp.spacing)(x)[some], np.spacing(x)[some])


def test_derivatives_of_scaling() -> None:
    assert kiln.grad(lambda x: jnp.ldexp(x, 3))(1.5) == 8
    assert kiln.grad(lambda x: jnp.frexp(x)[0])(6.0) == 0.125
