"""fft where the generic checks do not look: types of transforms, errors, sizes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.lax import FftType, fft

X = from_host(np.arange(12, dtype=np.float32).reshape(3, 4))
Z = from_host(np.arange(12).reshape(3, 4).astype(np.complex64))


def test_types_of_transforms_by_name() -> None:
    assert [int(kind) for kind in FftType] == [0, 1, 2, 3]
    np.testing.assert_allclose(fft(Z, "ifft", (4,)), np.fft.ifft(Z), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fft(X, FftType.RFFT, (4,)), np.fft.rfft(X), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="Unknown FFT type 'dct'"):
        fft(Z, "dct", (4,))
    with pytest.raises(TypeError, match="Unknown FFT type value '0'"):
        fft(Z, 0, (4,))


@pytest.mark.parametrize("dtype", ["int32", "bool", "float16", "float32"])
def test_real_numbers_become_complex(dtype: str) -> None:
    assert fft(from_host(np.ones((4,), dtype)), "FFT", (4,)).dtype == np.complex64


@pytest.mark.parametrize(
    ("x", "kind", "lengths", "words"),
    [
        (X, "RFFT", (3,), r"shape \(3, 4\) minor dimensions must be equal to fft_lengths \(3,\)"),
        (Z, "IRFFT", (8,), r"minor dimensions must be equal to fft_lengths \(8,\)"),
        (Z, "FFT", (1, 3, 4), r"at least as many input dimensions as fft_lengths"),
        (Z, "FFT", (1, 1, 3, 4), "at most 3 axes"),
        (Z, "RFFT", (4,), "only real valued inputs supported for rfft"),
        (from_host(np.ones(4, np.float16)), "RFFT", (4,), "must be float32 or float64"),
        (from_host(np.ones((3, 0), np.float32)), "RFFT", (0,), "the transform of no numbers"),
    ],
)
def test_operands_that_do_not_fit(x: Any, kind: str, lengths: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fft(x, kind, lengths)


@pytest.mark.parametrize("engine", ["reference", "xla"])
def test_no_elements(engine: str) -> None:
    with override(engine=engine):
        assert fft(from_host(np.ones((3, 1), np.complex64)), "IRFFT", (0,)).shape == (3, 0)
        assert fft(from_host(np.ones((0, 4), np.complex64)), "FFT", (4,)).shape == (0, 4)


def test_imaginary_parts_that_a_real_signal_cannot_have_are_ignored() -> None:
    half = np.array([1 + 5j, 2 - 1j, 3 + 7j], np.complex64)
    for engine in ("reference", "xla"):
        with override(engine=engine):
            found = np.asarray(fft(from_host(half), "IRFFT", (4,)))
        np.testing.assert_allclose(found, np.fft.irfft(half, 4), rtol=1e-6)


def test_the_gradient_of_the_energy() -> None:
    # Parseval: the energy of the transform is n times that of the signal.
    grad = kiln.grad(lambda x: (abs(fft(x, "FFT", (4,))) ** 2).sum())(X)
    np.testing.assert_allclose(grad, 2 * 4 * np.asarray(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_spreads_as_in_jax(name: str, value: float) -> None:
    jax = pytest.importorskip("jax")
    for n in (1, 2, 3, 4, 5, 8, 12, 17):
        for place in range(min(n // 2 + 1, 5)):
            x = np.arange(1, (n // 2 + 1 if name == "irfft" else n) + 1).astype("f")
            x[place] = value
            x = x if name == "rfft" else x.astype("F")
            expected = np.asarray(getattr(jax.numpy.fft, name)(x, n))
            found = kiln.jit(lambda x, n=n: getattr(jnp.fft, name)(x, n))(x)
            theirs, ours = ([y.real, y.imag] for y in (expected, np.asarray(found)))
            # In larger sizes JAX multiplies some infinities by 0; kiln leaves the terms out.
            known = ~np.isnan(theirs) | (n <= 5)
            np.testing.assert_allclose(
                np.array(ours)[known], np.array(theirs)[known], 1e-5, 1e-5, err_msg=f"{n} {place}"
            )


def _by_definition(x: Any, inverse: bool) -> list[Any]:
    """The parts of sums without the terms that are multiplied by 0."""
    n = len(x)
    angles = 2 * np.pi * np.arange(n) / n * (1 if inverse else -1)
    c, s = np.cos(angles), np.sin(angles)
    c[np.abs(c) < 1e-12] = s[np.abs(s) < 1e-12] = 0
    places = np.outer(np.arange(n), np.arange(n)) % n

    def total(part: Any, factors: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return np.where(factors[places] != 0, part * factors[places], 0).sum(1)

    re = total(x.real, c) - total(x.imag, s)
    im = total(x.imag, c) + total(x.real, s)
    scale = 1 / n if inverse else 1
    return [re * scale, im * scale]


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("n", [1, 8, 17, 60, 257, 1500, 2048])
def test_only_what_is_not_finite_spreads(n: int) -> None:
    draw = np.random.default_rng(n)
    for count in (1, 2, n // 2 + 1):
        x = draw.standard_normal((2, n)).astype("f")
        for place in draw.integers(0, n, count):
            x[draw.integers(2), place] = draw.choice([np.inf, -np.inf, np.nan])
        values = np.empty(n, np.complex64)
        values.real, values.imag = x
        for name in ("fft", "ifft"):
            transform = getattr(jnp.fft, name)
            found = np.asarray(kiln.jit(transform)(values))
            expected = _by_definition(values, name == "ifft")
            np.testing.assert_allclose([found.real, found.imag], expected, 1e-3, 1e-2)
            np.testing.assert_array_equal(transform(values), found)
        found = np.asarray(kiln.jit(jnp.fft.rfft)(x[0]))
        expected = [part[: n // 2 + 1] for part in _by_definition(x[0] + 0j, False)]
        np.testing.assert_allclose([found.real, found.imag], expected, 1e-3, 1e-2)


def test_only_results_that_are_too_large_overflow() -> None:
    for n in (16, 17, 2048):
        found = np.asarray(kiln.jit(jnp.fft.rfft)(np.full(n, 3e38, np.float32)))
        assert found[0] == np.inf
        assert np.abs(found[1:]).max() < 1e35 * n


def test_rows_of_nan_take_about_as_long_as_others() -> None:
    """Each once took as long as a thousand others."""
    transform = kiln.jit(jnp.fft.rfft)

    def seconds(value: float) -> float:
        x = np.full((200, 1024), value, np.float32)
        times = []
        for _ in range(3):
            start = time.process_time()
            transform(x).block_until_ready()
            times.append(time.process_time() - start)
        return min(times)

    assert seconds(np.nan) < seconds(1) + 0.3
