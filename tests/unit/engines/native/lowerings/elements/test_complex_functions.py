"""Functions of complex numbers against NumPy in 128 bits, on parts of very different sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override


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


NAMES = [
    *("exp", "expm1", "log", "log1p", "sqrt", "square", "sin", "cos", "tan", "sinh", "cosh"),
    *("tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "reciprocal"),
]


@pytest.mark.parametrize("name", NAMES)
def test_functions(name: str) -> None:
    x = _numbers()
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype(np.complex128))
    _assert_near(_native(getattr(jnp, name), x), expected)


@pytest.mark.parametrize(
    ("function", "meaning"),
    [
        (lax.rsqrt, lambda x: 1 / np.sqrt(x)),
        (lax.logistic, lambda x: 1 / (1 + np.exp(-x))),
        (lax.exp2, lambda x: np.exp(x * np.log(2))),
        (lambda x: lax.integer_pow(x, -3), lambda x: x**-3),
    ],
)
def test_functions_that_numpy_composes(function: Any, meaning: Any) -> None:
    x = _numbers()
    with np.errstate(all="ignore"):
        expected = meaning(x.astype(np.complex128))
    _assert_near(_native(function, x), expected)


@pytest.mark.parametrize("name", ["divide", "power"])
def test_functions_of_two_numbers(name: str) -> None:
    x = _numbers()[::2]
    x, y = (each.ravel() for each in np.meshgrid(x[abs(x) < 9], x[abs(x) < 4]))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x.astype(np.complex128), y.astype(np.complex128))
    _assert_near(_native(getattr(jnp, name), x, y), expected)


def _special(dtype: str) -> np.ndarray:
    """Return pairs of zeros of both signs, usual, huge, tiny and infinite parts, and nans."""
    part = np.finfo(dtype).dtype
    largest, least = float(np.finfo(part).max), float(np.finfo(part).tiny)
    sizes = [0.0, 0.5, 1.0, 2.0, np.pi / 2, 100.0, 800.0, largest, largest / 4, 4 * least, np.inf]
    parts = np.array([*sizes, *[-x for x in sizes], np.nan], part)
    found = np.empty((len(parts), len(parts)), dtype)
    found.real, found.imag = parts[:, None], parts
    return found.ravel()


def _differs(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Tell where numbers differ: nans, infinities, signs of zeros, or by a few units."""
    with np.errstate(all="ignore"):
        size = np.maximum(*(np.where(np.isfinite(p), abs(p), 0) for p in (y.real, y.imag)))
        tolerance = size * 16 * np.finfo(x.dtype).eps + 4 * np.finfo(x.dtype).tiny
        wrong = np.zeros(x.shape, bool)
        for a, b in ((x.real, y.real), (x.imag, y.imag)):
            finite = np.isfinite(a) & np.isfinite(b)
            wrong |= np.isnan(a) != np.isnan(b)
            wrong |= ~finite & ~np.isnan(a) & ~np.isnan(b) & (a != b)
            wrong |= (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
            wrong |= finite & (abs(a - b) > tolerance)
    return wrong


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", [n for n in NAMES if n != "expm1"])
def test_special_values_are_those_of_numpy_or_of_xla(name: str, dtype: str) -> None:
    with kiln.enable_x64():
        x = _special(dtype)
        found = _native(getattr(jnp, name), x)
        with override(engine="xla"):
            compiled = np.asarray(kiln.jit(getattr(jnp, name))(x))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    # The sign of a zero beside nan means nothing.
    parts = (expected.real, expected.imag)
    usual = ~(np.any(np.isnan(parts), 0) & np.any(np.equal(parts, 0), 0))
    wrong = _differs(found, expected) & _differs(found, compiled) & usual
    rows = zip(x[wrong], found[wrong], expected[wrong], compiled[wrong], strict=True)
    assert not wrong.any(), "\n".join(map(str, rows))


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        # Source: ISO C, Annex G.6.
        ("exp", complex(np.inf, np.nan), complex(np.inf, np.nan)),
        ("exp", complex(-np.inf, np.inf), 0j),
        ("sqrt", complex(-4, -0.0), complex(0, -2)),
        ("sqrt", complex(-4, 0.0), complex(0, 2)),
        ("sqrt", complex(np.nan, np.inf), complex(np.inf, np.inf)),
        ("log", complex(-1, -0.0), complex(0, -np.pi)),
        ("log", complex(-0.0, 0.0), complex(-np.inf, np.pi)),
        ("tanh", complex(np.inf, 3), complex(1, -0.0)),
        ("tanh", complex(0, np.inf), complex(0, np.nan)),
        ("sinh", complex(np.inf, np.nan), complex(np.inf, np.nan)),
        ("cosh", complex(-np.inf, np.inf), complex(np.inf, np.nan)),
        ("expm1", complex(np.inf, np.nan), complex(np.inf, np.nan)),
        ("expm1", complex(-np.inf, np.inf), complex(-1, 0)),
        ("expm1", complex(-0.0, 0), complex(0, 0)),
        ("arccos", complex(0, np.nan), complex(np.pi / 2, np.nan)),
        ("arccosh", complex(-0.0, np.nan), complex(np.nan, np.pi / 2)),
        ("arccos", complex(np.inf, np.nan), complex(np.nan, -np.inf)),
        ("arctanh", complex(1, 0), complex(np.inf, 0)),
        ("arcsin", complex(2, -0.0), complex(np.pi / 2, -np.arccosh(2))),
    ],
)
def test_limits_and_cuts(name: str, x: complex, expected: complex) -> None:
    found = _native(getattr(jnp, name), np.array([x], np.complex64))
    np.testing.assert_allclose(found, np.array([expected], np.complex64), rtol=1e-6)


def test_intermediate_results_do_not_overflow() -> None:
    largest = np.finfo(np.float32).max
    x = np.array([complex(largest, largest), complex(largest, -largest) / 4], np.complex64)
    tiny, one = np.array([1e-38 - 1e-38j, 1e-40j], np.complex64), np.ones(2, np.complex64)
    np.testing.assert_allclose(_native(lax.div, x, x), one, rtol=1e-6)
    np.testing.assert_allclose(_native(lax.div, tiny, tiny), one, rtol=1e-6)
    np.testing.assert_allclose(_native(lax.sqrt, x), np.sqrt(x.astype(np.complex128)), rtol=1e-6)
    np.testing.assert_allclose(_native(lax.log, x), np.log(x.astype(np.complex128)), rtol=1e-6)
    grown = np.array([100 + 1e-30j, -100 + 1.5707964j], np.complex64)
    for name in ("exp", "sinh", "cosh"):
        found = _native(getattr(lax, name), grown)
        expected = getattr(np, name)(grown.astype(np.complex128))
        for a, b in ((found.real, expected.real), (found.imag, expected.imag)):
            fits = abs(b) <= largest
            assert np.isinf(a[~fits]).all()
            np.testing.assert_allclose(a[fits], b[fits], rtol=1e-5, atol=1e-40)


def test_quotients_of_infinite_and_finite_numbers() -> None:
    x = np.array([complex(np.inf, 1), complex(3, 4), complex(1, 1)], np.complex64)
    y = np.array([complex(1, 1), complex(np.inf, -np.inf), complex(0, 0)], np.complex64)
    found = _native(lax.div, x, y)
    assert np.isinf(found[0])
    assert found[1] == 0
    assert np.isinf(found[2])


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


def test_moduli_at_all_scales_are_exact_to_a_unit() -> None:
    rng = np.random.default_rng(0)
    scales = rng.integers(-149, 127, 20_000)
    near = np.clip(scales + rng.integers(-14, 15, scales.size), -149, 126)
    parts = [rng.uniform(1, 2, scales.size) * 2.0**s for s in (scales, near)]
    x = np.empty(scales.size, np.complex64)
    x.real, x.imag = parts
    with override(engine="native"):
        found = np.asarray(kiln.jit(lambda x: abs(x))(x))
    exact = np.hypot(x.real.astype(np.float64), x.imag.astype(np.float64))
    error = abs(found - exact) / np.spacing(exact.astype(np.float32))
    assert error.max() < 1.1
    assert error.max() > 0.5
