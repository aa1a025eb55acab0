"""Spectra of signals in segments, and what removes trends.

Source: Welch, "The use of fast Fourier transform for the estimation of power spectra" (1967);
Griffin and Lim, "Signal estimation from modified short-time Fourier transform" (1984).
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.lazy import scipy_signal
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy import fft
from kiln.numpy.promotion import inexact, lifted, of_own_ranks, promote_dtypes_inexact
from kiln.ops.shape import canonical_axis
from kiln.scipy.signal.convolution import refused

BOUNDARIES: dict[str | None, str | None] = {
    "even": "reflect",
    "odd": "odd",
    "constant": "edge",
    "zeros": "constant",
    None: None,
}


def along_last(factors: Any, x: Any) -> Any:
    """Return a vector with as many axes as an array whose last axis it is for.

    Shapes: `factors` (n,), x (..., n) -> (1, ..., 1, n).
    """
    return factors.reshape((1,) * (x.ndim - 1) + factors.shape)


@of_own_ranks
def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Array:
    """Subtract the mean, or the line of least squares, along an axis.

    Lines are found between the indices `bp`.

    Raises: ValueError for another type, or indices outside; NotImplementedError for
        `overwrite_data`.
    Example:
        >>> kiln.scipy.signal.detrend(jnp.array([1.0, 2.0, 3.0])).round(4)
        Array([0., 0., 0.], dtype=float32)
    """
    if overwrite_data is not None:
        raise refused(
            "detrend with overwrite_data",
            "overwrite_data argument not implemented.",
            "leave it out",
            NotImplementedError,
        )
    if type not in ("constant", "linear"):
        raise refused(
            f"detrend with type={type!r}",
            "Trend type must be 'linear' or 'constant'.",
            'use "linear"',
        )
    x = lifted(inexact("detrend", jnp.asarray(data)))
    if type == "constant":
        return x - jnp.mean(x, axis=axis, keepdims=True)
    axis = canonical_axis("detrend", axis, x.ndim)
    rows = jnp.moveaxis(x, axis, -1)
    size = rows.shape[-1]
    ends = sorted({0, size, *np.atleast_1d(np.asarray(bp)).tolist()})
    if ends[0] < 0 or ends[-1] > size:
        raise refused(
            f"detrend with bp={bp}",
            "Breakpoints must be non-negative and less than length of data along given axis.",
            f"pass indices from 0 to {size}",
        )
    parts = []
    for first, last in itertools.pairwise(ends):
        part = rows[..., first:last]
        # Around its middle, a line's slope and height are found independently.
        t = np.arange(last - first) - 0.5 * (last - first - 1)
        square = float(t @ t) or 1.0
        t = along_last(jnp.asarray(t.astype(part.dtype)), part)
        slope = jnp.sum(part * t, axis=-1, keepdims=True) / square
        parts.append(part - jnp.mean(part, axis=-1, keepdims=True) - slope * t)
    return jnp.moveaxis(jnp.concatenate(parts, axis=-1), -1, axis)


def _trendless(how: Any) -> Callable[[Any], Any]:
    if not how:
        return lambda x: x
    if callable(how):
        return how
    return lambda x: detrend(x, axis=-1, type=how)


def _window(window: Any, nperseg: int | None, size: int, name: str) -> tuple[np.ndarray, int]:
    """Return the weights of a segment, and its size."""
    if isinstance(window, (str, tuple)):
        count = size if nperseg is None else int(nperseg)
        if count > size:
            warnings.warn(
                f"{name}: nperseg={count} is greater than the signal's size {size}, using {size}",
                UserWarning,
                stacklevel=4,
            )
            count = size
        return scipy_signal.get_window(window, count), count
    weights = np.asarray(window)
    if weights.ndim != 1 or (nperseg is not None and weights.shape[0] != nperseg):
        raise refused(
            f"{name} with a window of shape {weights.shape}, nperseg={nperseg}",
            "value specified for nperseg is different from length of window",
            "leave nperseg out",
        )
    if weights.shape[0] > size:
        raise refused(
            f"{name} of {size} samples", "window is longer than input signal", "use a shorter one"
        )
    return weights, weights.shape[0]


def _sizes(name: str, nperseg: int, noverlap: int | None, nfft: int | None) -> tuple[int, int]:
    points = nperseg if nfft is None else int(nfft)
    overlap = nperseg // 2 if noverlap is None else int(noverlap)
    asked = f"{name} with nperseg={nperseg}, noverlap={noverlap}, nfft={nfft}"
    if nperseg < 1:
        raise refused(asked, "nperseg must be a positive integer", "pass nperseg=256")
    if points < nperseg:
        raise refused(asked, "nfft must be greater than or equal to nperseg.", "leave nfft out")
    if overlap >= nperseg:
        raise refused(asked, "noverlap must be less than nperseg.", "leave noverlap out")
    return overlap, points


def _segments(x: Any, size: int, step: int) -> Any:
    """Return overlapping parts of the last axis, along a new axis before it."""
    starts = np.arange(0, x.shape[-1] - size + 1, step)
    return x[..., starts[:, None] + np.arange(size)]


def _extended(x: Any, count: int, how: str | None) -> Any:
    if how is None or count == 0:
        return x
    widths = [(0, 0)] * (x.ndim - 1) + [(count, count)]
    if how == "odd":
        left = 2 * x[..., :1] - jnp.flip(x[..., 1 : count + 1], -1)
        right = 2 * x[..., -1:] - jnp.flip(x[..., -count - 1 : -1], -1)
        return jnp.concatenate([left, x, right], axis=-1)
    return jnp.pad(x, widths, mode=how)


def _spectra(
    name: str,
    x: Any,
    y: Any,
    fs: Any,
    window: Any,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    trend: Any,
    onesided: bool,
    scaling: str,
    axis: int,
    squared: bool,
    boundary: str | None = None,
    padded: bool = False,
) -> tuple[Any, Any, Any]:
    """Return frequencies, times, and spectra (..., frequencies, times) of segments."""
    if boundary not in BOUNDARIES:
        raise refused(
            f"{name} with boundary={boundary!r}",
            f"Unknown boundary option {boundary!r}, must be one of: {list(BOUNDARIES)}",
            'use "zeros"',
        )
    if scaling not in ("density", "spectrum"):
        raise refused(f"{name} with scaling={scaling!r}", "Unknown scaling", 'use "density"')
    own = y is None
    arrays = promote_dtypes_inexact(*(jnp.asarray(v) for v in ((x,) if own else (x, y))))
    place = canonical_axis(name, axis, arrays[0].ndim)
    signals = [jnp.moveaxis(v, place, -1) for v in arrays]
    if not own and signals[0].shape[-1] != signals[1].shape[-1]:
        size = max(v.shape[-1] for v in signals)
        signals = [jnp.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, size - v.shape[-1])]) for v in signals]
    weights, count = _window(window, nperseg, signals[0].shape[-1], name)
    overlap, points = _sizes(name, count, noverlap, nfft)
    step = count - overlap
    signals = [_extended(v, count // 2, BOUNDARIES[boundary]) for v in signals]
    if padded:
        size = signals[0].shape[-1]
        more = -(size - count) % step
        signals = [jnp.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, more)]) for v in signals]
    # Of complex signals or windows both halves of the spectrum differ.
    is_complex = any(jnp.iscomplexobj(v) for v in signals) or np.iscomplexobj(weights)
    onesided = onesided and not is_complex
    real = np.dtype(np.float64 if arrays[0].dtype in (np.float64, np.complex128) else np.float32)
    wide = np.dtype(np.complex128 if real == np.float64 else np.complex64)
    shape = jnp.asarray(weights.astype(wide if np.iscomplexobj(weights) else real))
    remove = _trendless(trend)
    found = []
    for v in signals:
        parts = remove(_segments(v, count, step))
        both = wide if np.iscomplexobj(weights) or jnp.iscomplexobj(parts) else real
        parts = parts.astype(both) * along_last(shape.astype(both), parts)
        found.append(fft.rfft(parts, points) if onesided else fft.fft(parts, points))
    result = jnp.conj(found[0]) * found[-1] if squared else found[0]
    power = float(np.sum(np.abs(weights) ** 2))
    total = float(np.abs(np.sum(weights)))
    scale = 1 / (fs * power) if scaling == "density" else 1 / total**2
    result = result * (scale if squared else scale**0.5)
    if squared and onesided:
        # Each frequency stands for two, except 0 and the highest of an even number.
        last = result.shape[-1] - (points % 2 == 0)
        result = result.at[..., 1:last].multiply(2)
    if squared and own:
        result = result.real
    frequencies = fft.rfftfreq(points, 1 / fs) if onesided else fft.fftfreq(points, 1 / fs)
    starts = jnp.arange(result.shape[-2]).astype(dtypes.default_float_dtype())
    times = starts * (step / fs) + count / 2 / fs
    if boundary is not None:
        times = times - (count / 2) / fs
    spectra = jnp.moveaxis(jnp.swapaxes(result, -1, -2), -2, place)
    return frequencies.astype(real), times.astype(real), spectra


@of_own_ranks
def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Return frequencies and the cross spectral density, averaged over segments.

    Without `nperseg` the whole signal is one segment.

    Raises: ValueError for options that are not known, or sizes that do not fit.
    Example:
        >>> x = jnp.sin(jnp.arange(64.0))
        >>> frequencies, density = kiln.scipy.signal.csd(x, x, nperseg=16)
        >>> frequencies.shape, density.shape
        ((9,), (9,))
    """
    if average not in ("mean", "median"):
        raise refused(f"csd with average={average!r}", f"Invalid average: {average}", 'use "mean"')
    frequencies, _, spectra = _spectra(
        "csd",
        x,
        y,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        True,
    )
    if average == "mean":
        return frequencies, jnp.mean(spectra, axis=-1)
    bias = _median_bias(spectra.shape[-1])
    if jnp.iscomplexobj(spectra):
        middle = jnp.median(spectra.real, -1) + 1j * jnp.median(spectra.imag, -1)
        return frequencies, middle / bias
    return frequencies, jnp.median(spectra, axis=-1) / bias


def _median_bias(n: int) -> float:
    """Return the mean of the median of n exponential variables, over their mean."""
    ii = 2 * np.arange(1.0, (n - 1) // 2 + 1)
    return float(1 + np.sum(1 / (ii + 1) - 1 / ii))


@of_own_ranks
def welch(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Return frequencies and the power spectral density, averaged over segments.

    Without `nperseg` the whole signal is one segment.

    Raises: ValueError for options that are not known, or sizes that do not fit.
    Example:
        >>> x = jnp.sin(2 * jnp.pi * 0.25 * jnp.arange(64.0))
        >>> frequencies, density = kiln.scipy.signal.welch(x, nperseg=16)
        >>> frequencies[density.argmax()]
        Array(0.25, dtype=float32)
    """
    frequencies, power = csd(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )
    return frequencies, power.real


@of_own_ranks
def stft(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """Return frequencies, times, and the short-time Fourier transform, times last.

    Raises: ValueError for options that are not known, or sizes that do not fit.
    Example:
        >>> frequencies, times, z = kiln.scipy.signal.stft(jnp.ones(64), nperseg=16)
        >>> frequencies.shape, times.shape, z.shape
        ((9,), (9,), (9, 9))
    """
    return _spectra(
        "stft",
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        "spectrum",
        axis,
        False,
        boundary,
        padded,
    )


@of_own_ranks
def istft(
    Zxx: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """Return times and the signal of least squares that `stft` would map to `Zxx`.

    Raises: ValueError for fewer than two axes, axes that coincide, or sizes that do not fit.
    Example:
        >>> x = jnp.sin(jnp.arange(64.0))
        >>> z = kiln.scipy.signal.stft(x, nperseg=16)[2]
        >>> jnp.allclose(kiln.scipy.signal.istft(z, nperseg=16)[1], x, atol=1e-4)
        Array(True, dtype=bool)
    """
    z = lifted(jnp.asarray(Zxx))
    if z.ndim < 2:
        raise refused(f"istft of {z.aval}", "Input stft must be at least 2d!", "pass a matrix")
    time, frequency = (canonical_axis("istft", i, z.ndim) for i in (time_axis, freq_axis))
    if time == frequency:
        raise refused(
            f"istft with time_axis={time_axis}, freq_axis={freq_axis}",
            "Must specify differing time and frequency axes!",
            "leave them out",
        )
    z = jnp.moveaxis(z, (frequency, time), (-1, -2))
    rows = z.shape[-1]
    natural = 2 * (rows - 1) if input_onesided else rows
    count = natural if nperseg is None else int(nperseg)
    if nfft is not None:
        points = int(nfft)
    elif input_onesided and count == natural + 1:
        # An odd number of points has as many frequencies as the even one below it.
        points = count
    else:
        points = natural
    weights, _ = (
        (scipy_signal.get_window(window, count), count)
        if isinstance(window, (str, tuple))
        else (np.asarray(window), count)
    )
    overlap, points = _sizes("istft", count, noverlap, points)
    step = count - overlap
    real = np.dtype(np.float64 if z.dtype == np.complex128 else np.float32)
    if dtypes.bit_width(z.dtype) < 64 and not jnp.iscomplexobj(z):
        z = z.astype(np.complex64)
    parts = fft.irfft(z, points) if input_onesided else fft.ifft(z, points)
    shape = jnp.asarray(weights.astype(real))
    parts = parts[..., :count]
    shape = (shape * float(np.sum(weights))).astype(parts.dtype)
    parts = parts * along_last(shape, parts)
    segments = parts.shape[-2]
    size = count + (segments - 1) * step
    places = (np.arange(segments)[:, None] * step + np.arange(count)).ravel()
    out = jnp.zeros((*parts.shape[:-2], size), parts.dtype)
    out = out.at[..., places].add(parts.reshape((*parts.shape[:-2], -1)))
    norm = np.zeros(size)
    np.add.at(norm, places, np.tile(weights**2, segments))
    inner = slice(count // 2, size - count // 2) if boundary else slice(None)
    norm = np.where(norm > 1e-10, norm, 1.0)[inner]
    out = out[..., inner]
    out = out / along_last(jnp.asarray(norm.astype(out.dtype)), out)
    times = jnp.arange(out.shape[-1]).astype(real) / fs
    if out.ndim > 1:
        out = jnp.moveaxis(out, -1, min(time, frequency))
    return times, out
