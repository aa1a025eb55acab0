"""Functions of complex numbers against NumPy in 128 bits, on parts of very different sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.config import override


def _numbers() -> np.ndarray:
    sizes = [0.0, 1e-3, 0.5, 1.0, 1.25, 3.0, 20.0]
    parts = np.array([*sizes, *[-x for x in sizes[1:]]])
    found: np.ndarray = (parts[:, None] + 1j * parts[None]).ravel().astype(np.complex64)
    return found


def _native(function: Callable[..., Any], *operands: Any) -> np.ndarray:
    with override(engine="native"):
        return np.asarray(kiln.jit(lambda *xs: function(*xs))(*operands))


def _assert_near(found: np.ndarray, expected: np.ndarray, tolerance: float = 2e-5) -> None:
    usual = np.isfinite(expected) & (abs(expected) < 1e30)
    error = abs(found[usual] - expected[usual]) / np.maximum(abs(expected[usual]), 1)
    assert error.max() < tolerance


@pytest.mark.parametrize("name", ["log", "log1p", "square"])
def test_functions(name: str) -> None:
    x = _numbers()
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype(np.complex128))
    _assert_near(_native(getattr(jnp, name), x), expected)


@pytest.mark.parametrize("large", [1e30, 1e-30])
def test_sizes_do_not_overflow(large: float) -> None:
    x = np.array([3 + 4j, -5 + 1j, 1 - 2j]) * large
    narrow = x.astype(np.complex64)
    np.testing.assert_allclose(_native(jnp.abs, narrow), abs(x), rtol=1e-6)
    np.testing.assert_allclose(_native(jnp.sign, narrow), x / abs(x), rtol=1e-6)


def test_numbers_are_ordered_by_their_real_parts_first() -> None:
    x = np.array([1 + 2j, 1 - 2j, np.nan + 0j, 3 + 0j], np.complex64)
    y = np.array([1 + 1j, 2 + 0j, 1 + 0j, 1 + np.nan * 1j], np.complex64)
    for function, meaning in ((jnp.maximum, np.maximum), (jnp.minimum, np.minimum)):
        np.testing.assert_array_equal(_native(function, x, y), meaning(x, y))
    rows = x[:2].reshape(1, 2)
    np.testing.assert_array_equal(_native(lambda x: jnp.max(x, 1), rows), np.max(rows, 1))
    np.testing.assert_allclose(_native(lambda x: jnp.prod(x, 1), rows), np.prod(rows, 1))


@pytest.mark.parametrize("name", ["exp", "sqrt", "sin", "tanh", "rsqrt", "div", "pow"])
def test_what_differs_from_xla_at_special_values_runs_there(name: str) -> None:
    x = np.array([complex(np.inf, 1), 2 + 1j], np.complex64)
    operands = (x, x) if name in ("div", "pow") else (x,)
    with override(engine="xla"):
        expected = np.asarray(kiln.jit(getattr(lax, name))(*operands))
    np.testing.assert_array_equal(kiln.jit(getattr(lax, name))(*operands), expected)
    with pytest.raises(ValueError, match="complex"):
        _native(getattr(lax, name), *operands)
