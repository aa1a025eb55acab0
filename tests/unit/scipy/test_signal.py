"""Convolution, spectra, cosine transforms, images and interpolation are SciPy's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.interpolate
import scipy.ndimage
import scipy.signal

import kiln
from kiln.base.options.config import override
from kiln.scipy import cluster, fft, interpolate, ndimage, signal

RNG = np.random.default_rng(0)
SIGNAL, OTHER = RNG.normal(size=(2, 2, 1000))
SHAPES = [((7,), (4,)), ((4,), (7,)), ((5, 6), (3, 2)), ((3, 4, 5), (2, 3, 2))]
SPECTRA: list[dict[str, Any]] = [
    {"nperseg": 256},
    {"nperseg": 100, "noverlap": 30, "nfft": 128, "fs": 3.0},
    {"nperseg": 101, "scaling": "spectrum", "detrend": "linear"},
    {"nperseg": 64, "average": "median"},
    {"nperseg": 64, "return_onesided": False},
    {"nperseg": 64, "window": "hamming", "detrend": False},
]
TIMES: list[dict[str, Any]] = [
    {},
    {"nperseg": 101, "noverlap": 60},
    {"boundary": None, "padded": False},
    {"boundary": "even"},
    {"boundary": "odd", "nperseg": 50},
    {"boundary": "constant", "nfft": 300},
    {"fs": 10.0},
]


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with kiln.enable_x64(True):
        yield


def near(found: Any, expected: Any, text: Any = "") -> None:
    """Compare one array, or several."""
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10, err_msg=str(text))


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("part", [0, 1j])
def test_convolution(shapes: Any, part: complex) -> None:
    a, b = (RNG.normal(size=s) + part * RNG.normal(size=s) for s in shapes)
    for mode in ("full", "same", "valid"):
        for name in ("convolve", "correlate"):
            expected = getattr(scipy.signal, name)(a, b, mode)
            for method in ("direct", "fft"):
                near(getattr(signal, name)(a, b, mode, method), expected, (name, mode, method))
        near(signal.fftconvolve(a, b, mode), scipy.signal.fftconvolve(a, b, mode), mode)
        if a.ndim == 2:
            for name in ("convolve2d", "correlate2d"):
                expected = getattr(scipy.signal, name)(a, b, mode)
                near(getattr(signal, name)(a, b, mode), expected, (name, mode))


def test_convolution_along_axes() -> None:
    a, b = RNG.normal(size=(3, 7)), RNG.normal(size=(1, 4))
    near(signal.fftconvolve(a, b, axes=[1]), scipy.signal.fftconvolve(a, b, axes=[1]))


@pytest.mark.parametrize("type", ["linear", "constant"])
def test_detrend(type: str) -> None:
    near(signal.detrend(SIGNAL, type=type), scipy.signal.detrend(SIGNAL, type=type))
    expected = scipy.signal.detrend(SIGNAL, type=type, bp=[300, 600])
    near(signal.detrend(SIGNAL, type=type, bp=[300, 600]), expected)
    near(signal.detrend(SIGNAL, 0, type), scipy.signal.detrend(SIGNAL, 0, type))


@pytest.mark.parametrize("options", SPECTRA, ids=str)
def test_spectra(options: dict[str, Any]) -> None:
    near(signal.welch(SIGNAL, **options), scipy.signal.welch(SIGNAL, **options))
    near(signal.csd(SIGNAL, OTHER, **options), scipy.signal.csd(SIGNAL, OTHER, **options))
    found = signal.welch(SIGNAL.T, axis=0, **options)
    near(found, scipy.signal.welch(SIGNAL.T, axis=0, **options))


@pytest.mark.parametrize("options", TIMES, ids=str)
def test_short_times(options: dict[str, Any]) -> None:
    near(signal.stft(SIGNAL, **options), scipy.signal.stft(SIGNAL, **options))
    near(signal.stft(SIGNAL.T, axis=0, **options), scipy.signal.stft(SIGNAL.T, axis=0, **options))


@pytest.mark.parametrize("options", [{}, {"nperseg": 100}, {"nperseg": 101, "noverlap": 60}])
def test_back_from_short_times(options: dict[str, Any]) -> None:
    spectra = scipy.signal.stft(SIGNAL[0], **options)[2]
    near(signal.istft(spectra, **options), scipy.signal.istft(spectra, **options))


@pytest.mark.parametrize("type", [1, 2, 3, 4])
def test_cosine_transforms(type: int) -> None:
    for size in (2, 5, 8):
        x = RNG.normal(size=(3, size, 4))
        for norm in (None, "ortho", "forward"):
            for name in ("dct", "idct"):
                expected = getattr(scipy.fft, name)(x, type, axis=1, norm=norm)
                near(getattr(fft, name)(x, type, axis=1, norm=norm), expected, (name, size, norm))
    near(fft.dct(x, type, n=11), scipy.fft.dct(x, type, n=11))
    expected = scipy.fft.dctn(x, type, s=(5, 6), axes=(0, 1), norm="ortho")
    near(fft.dctn(x, type, s=(5, 6), axes=(0, 1), norm="ortho"), expected)
    near(fft.idctn(x, type), scipy.fft.idctn(x, type))


def test_complex_numbers_are_transformed_by_their_parts() -> None:
    x = SIGNAL[:, :30] + 1j * OTHER[:, :30]
    near(fft.dct(x, type=3), scipy.fft.dct(x, type=3))
    near(fft.idctn(x, norm="ortho"), scipy.fft.idctn(x, norm="ortho"))


def test_a_spectrum_with_itself_is_complex() -> None:
    # As in jax; SciPy's is real if both signals are one object.
    found = signal.csd(SIGNAL, SIGNAL, nperseg=100)[1]
    assert found.dtype == np.complex128
    near(found, scipy.signal.csd(SIGNAL, SIGNAL.copy(), nperseg=100)[1])


@pytest.mark.parametrize("part", [0, 1j])
def test_nothing_is_promoted(part: complex) -> None:
    x = SIGNAL[None] + part * OTHER[None]
    calls = [
        lambda: signal.stft(x, nperseg=64),
        lambda: signal.istft(scipy.signal.stft(x, nperseg=64)[2], nperseg=64),
        lambda: signal.csd(x, x, nperseg=64, detrend="linear"),
        lambda: signal.welch(x, nperseg=64),
        *[lambda type=type: fft.dct(x, type=type, axis=1) for type in (2, 3, 4)],
        lambda: fft.dctn(x, type=1, axes=(1, 2)),
    ]
    for call in calls:
        expected = call()
        with override(numpy_rank_promotion="raise", numpy_dtype_promotion="strict"):
            found = call()
        for a, b in zip(kiln.tree.leaves(found), kiln.tree.leaves(expected), strict=True):
            near(a, b)


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
def test_coordinates(mode: str) -> None:
    image, places = RNG.normal(size=(6, 7)), RNG.uniform(-9, 15, size=(2, 50))
    # SciPy's own "constant" and "wrap" are others, kept for compatibility.
    theirs = {"constant": "grid-constant", "wrap": "grid-wrap"}.get(mode, mode)
    for order in (0, 1):
        found = ndimage.map_coordinates(image, list(places), order, mode, cval=0.7)
        near(
            found, scipy.ndimage.map_coordinates(image, places, order=order, mode=theirs, cval=0.7)
        )


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, 0.0, None])
def test_grid(method: str, fill: Any) -> None:
    grid = np.sort(RNG.uniform(size=6)), np.sort(RNG.uniform(size=7))[::-1]
    values, points = RNG.normal(size=(6, 7, 2)), RNG.uniform(0, 1.2, size=(20, 2))
    ours = interpolate.RegularGridInterpolator(grid, values, method, fill_value=fill)
    theirs = scipy.interpolate.RegularGridInterpolator(grid, values, method, False, fill)
    near(kiln.jit(lambda f, x: f(x))(ours, points), theirs(points))


def test_quantization() -> None:
    found = cluster.vq.vq(SIGNAL.T[:20], OTHER.T[:5])
    near(found, scipy.cluster.vq.vq(SIGNAL.T[:20], OTHER.T[:5]))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: signal.convolve(SIGNAL, SIGNAL[0]), ValueError, "same number of dimensions"),
        (lambda: signal.convolve2d(SIGNAL, SIGNAL, boundary="wrap"), NotImplementedError, "fill"),
        (lambda: signal.stft(SIGNAL, nperseg=8, noverlap=8), ValueError, "noverlap"),
        (lambda: signal.detrend(SIGNAL, type="square"), ValueError, "Trend type"),
        (lambda: fft.dct(SIGNAL, 5), ValueError, "types 1 to 4"),
        (lambda: ndimage.map_coordinates(SIGNAL, [SIGNAL], 1), ValueError, "input.ndim"),
        (lambda: ndimage.map_coordinates(SIGNAL, list(SIGNAL), 2), NotImplementedError, "order"),
        (lambda: cluster.vq.vq(SIGNAL, SIGNAL.T), ValueError, "same rank"),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 3
