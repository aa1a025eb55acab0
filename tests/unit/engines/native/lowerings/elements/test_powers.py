"""Powers to constant halves are products and square roots; other powers are functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override

HALVES = [h / 2 for h in range(-4, 7) if h != 0]
OTHERS = [-2.5, 0.25, 3.5, 0.0, np.inf, np.nan]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0, -1.0]


def powers(x: Any) -> list[Any]:
    return [jnp.power(x, h) for h in HALVES]


def arguments(kind: np.dtype[Any]) -> np.ndarray:
    """Return positive numbers of the whole range, negative ones, and special values."""
    info, rng = np.finfo(kind), np.random.default_rng(7)
    exponents = rng.integers(info.minexp - info.nmant, info.maxexp, 4000)
    # Powers of two of every magnitude, subnormal ones included.
    wide = np.ldexp(rng.uniform(1, 2, 4000), exponents).astype(kind)
    ends = np.array([info.max, info.tiny, info.smallest_subnormal, info.tiny / 4], kind)
    near = rng.uniform(0.25, 4, 4000).astype(kind)
    return np.concatenate([wide, near, -near[:20], ends, np.array(SPECIAL, kind)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_errors_and_special_values(dtype: str) -> None:
    kind = np.dtype(dtype)
    x = arguments(kind)
    with override(enable_x64=True, engine="native"):
        found = [np.asarray(y) for y in kiln.jit(powers)(x)]
    for h, y in zip(HALVES, found, strict=True):
        with np.errstate(all="ignore"):
            # 64 bits of fraction and a wider exponent.
            exact = np.power(x.astype(np.longdouble), np.longdouble(h))
            expected = exact.astype(kind)
            finite = np.isfinite(expected) & np.isfinite(y)
            unit = np.spacing(np.abs(expected[finite])).astype(np.longdouble)
            errors = np.abs(y[finite] - exact[finite]) / unit
        assert y.dtype == kind
        assert errors.max() <= 2, (h, x[finite][np.argmax(errors)])
        special = np.isin(x, SPECIAL) | np.isnan(x)
        np.testing.assert_array_equal(y[special], expected[special])
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(y[zero]), np.signbit(expected[zero]))
        np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
        # Numbers at the end of the range may be rounded to infinity.
        beyond = np.isinf(y) != np.isinf(expected)
        assert (np.abs(exact[beyond]) >= np.finfo(kind).max * (1 - 4 * np.finfo(kind).eps)).all()


def test_narrow_floats_are_rounded_once() -> None:
    x = np.arange(1, 2000, dtype=np.float16) / np.float16(16)
    with override(engine="native"):
        found = kiln.jit(powers)(x)
    with np.errstate(over="ignore"):
        for h, y in zip(HALVES, found, strict=True):
            exact = (x.astype(np.float64) ** h).astype(np.float16)
            # An error of f32 may round to a neighbor, but hardly ever does.
            assert np.count_nonzero(np.asarray(y) != exact) <= 10, h
            patterns = np.asarray(y).view(np.int16), exact.view(np.int16)
            assert np.abs(np.subtract(*patterns, dtype=np.int32)).max() <= 1, h


def test_which_powers_are_products() -> None:
    x = np.ones(20, np.float32)

    def text(h: float) -> str:
        return kiln.jit(lambda x: jnp.power(x, h)).lower(x).as_text("loops")

    assert all("pow" not in text(h) for h in HALVES)
    assert all("pow" in text(h) for h in OTHERS[:3])
    with override(engine="native"):
        for h in OTHERS:
            found = kiln.jit(lambda x, h=h: jnp.power(x, h))(x * 2)
            np.testing.assert_allclose(found, np.power(x * 2, np.float32(h)), rtol=1e-6)
