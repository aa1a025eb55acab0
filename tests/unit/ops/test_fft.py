"""fft where the generic checks do not look: types of transforms, errors, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.config import override
from kiln.core.array import from_host
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
