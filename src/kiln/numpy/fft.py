"""Discrete Fourier transforms with NumPy's names: axes moved last, truncated or padded, scaled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, Axes, DTypeLike
from kiln.ir.sizes.size import Dim
from kiln.numpy.creation.arrays import asarray, cast
from kiln.numpy.elements.arithmetic import divide, multiply
from kiln.numpy.elements.complex_parts import conj
from kiln.numpy.manipulation.element_order import roll
from kiln.numpy.promotion import one
from kiln.numpy.shapes import canonical_axes, index_of, moveaxis
from kiln.ops.elements.families import constant
from kiln.ops.indexing.static_slicing import pad
from kiln.ops.linear.fft import MOST_AXES, FftType
from kiln.ops.linear.fft import fft as transform
from kiln.ops.sharding import put

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
_HALVES = (FftType.RFFT, FftType.IRFFT)
_BACK = (FftType.IFFT, FftType.IRFFT)


def _transformed(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: str | None) -> Any:
    a = one(f"fft.{name}", a)
    rank = len(a.shape)
    _check_norm(name, norm)
    sizes = None if s is None else [index_of(name, n) for n in s]
    if sizes is not None and any(n <= 0 for n in sizes):
        raise _refused(name, a, f"s={s}", "Shape should be positive.", "ask for 1 or more elements")
    if axes is None:
        axes = range(rank) if sizes is None else range(rank - len(sizes), rank)
    if len({*axes}) != len(axes):
        raise _refused(
            name,
            a,
            f"axes={axes}",
            f"jax.numpy.fft.{name} does not support repeated axes. Got axes {axes}.",
            "name each axis once",
        )
    axes = canonical_axes(name, axes, rank)
    if sizes is None:
        sizes = [a.shape[axis] for axis in axes]
        if kind is FftType.IRFFT and sizes:
            sizes[-1] = max(0, 2 * (sizes[-1] - 1))
    elif len(sizes) != len(axes):
        wrong = "Shape and axes have different lengths."
        raise _refused(name, a, f"s={s}, axes={axes}", wrong, "give one size for each axis")
    else:
        taken = list(sizes)
        if kind is FftType.IRFFT and taken:
            taken[-1] = taken[-1] // 2 + 1
        a = _resized(a, axes, taken)
    if not axes:
        return a if kind is FftType.RFFT else transform(a, FftType.FFT, ())
    last = range(rank - len(axes), rank)
    out = _in_steps(kind, moveaxis(a, axes, last), sizes)
    return moveaxis(_scaled(out, kind, sizes, norm), last, axes)


def _refused(name: str, a: Any, given: str, wrong: str, remedy: str) -> ValueError:
    asked = f"fft.{name}: operand {a.aval}, {given} at {current_source()}"
    return ValueError(three_lines(asked, wrong, remedy))


def _check_norm(name: str, norm: str | None) -> None:
    if norm not in _SWAPPED:
        raise ValueError(
            three_lines(
                f"fft.{name} with norm={norm!r} at {current_source()}",
                f'Invalid norm value {norm}; should be "backward","ortho" or "forward".',
                "leave norm out for backward",
            )
        )


def _resized(a: Any, axes: Sequence[int], sizes: Sequence[Dim]) -> Any:
    """Truncate axes to the given sizes, or pad them with zeros."""
    config = [(0, 0, 0)] * len(a.shape)
    for axis, size in zip(axes, sizes, strict=True):
        config[axis] = (0, size - a.shape[axis], 0)
    return pad(a, constant(0, a), config) if any(high for _, high, _ in config) else a


def _in_steps(kind: FftType, a: Any, sizes: Sequence[Any]) -> Any:
    """Transform the last axes, a few at a time; for the inverse, the halved one last."""
    count = len(sizes)
    if count <= MOST_AXES:
        return transform(a, kind, sizes)
    rank = len(a.shape)
    whole = FftType.IFFT if kind in _BACK else FftType.FFT
    if kind is FftType.RFFT:
        a = transform(a, kind, sizes[-MOST_AXES:])
    first = range(rank - count, rank - MOST_AXES)
    last = range(rank - len(first), rank)
    a = _in_steps(whole, moveaxis(a, first, last), sizes[:-MOST_AXES])
    a = moveaxis(a, last, first)
    return a if kind is FftType.RFFT else transform(a, kind, sizes[-MOST_AXES:])


def _scaled(a: Any, kind: FftType, sizes: Sequence[Any], norm: str | None) -> Any:
    """Rescale from the normalization "backward" to another one."""
    count = math.prod(sizes)
    if norm in (None, "backward") or not count:
        return a
    factor = math.sqrt(count) if norm == "ortho" else count
    return multiply(a, factor) if kind in _BACK else divide(a, factor)


def _along_one(name: str, kind: FftType, a: Any, n: Any, axis: Any, norm: str | None) -> Any:
    if isinstance(axis, (tuple, list)):
        raise ValueError(
            three_lines(
                f"fft.{name} with axis={axis} at {current_source()}",
                f"jax.numpy.fft.{name} does not support multiple axes. Please use "
                f"jax.numpy.fft.{name}n. Got axis = {axis}.",
                "name one axis",
            )
        )
    return _transformed(name, kind, a, None if n is None else (n,), (axis,), norm)


def _along_two(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: str | None) -> Any:
    if len(axes) != 2:
        raise ValueError(
            three_lines(
                f"fft.{name} with axes={axes} at {current_source()}",
                f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes}.",
                f"use fft.{name[:-1]}n",
            )
        )
    return _transformed(name, kind, a, s, axes, norm)


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the Fourier transform along an axis, first truncated or zero-padded to `n` elements.

    Example:
        >>> jnp.fft.fft(jnp.array([1.0, 0.0, 0.0, 0.0])).real
        Array([1., 1., 1., 1.], dtype=float32)
    """
    return _along_one("fft", FftType.FFT, a, n, axis, norm)


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the inverse Fourier transform along an axis.

    Complex numbers have 64 bits, two floats of 32, where NumPy computes in 128.

    Example:
        >>> jnp.fft.ifft(jnp.fft.fft(jnp.array([1.0, 2.0, 3.0]))).real.round(4)
        Array([1., 2., 3.], dtype=float32)
    """
    return _along_one("ifft", FftType.IFFT, a, n, axis, norm)


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the non-redundant half of the Fourier transform of a real array.

    Shapes: (..., n) -> (..., n // 2 + 1).
    Example:
        >>> jnp.fft.rfft(jnp.array([1.0, 0.0, -1.0, 0.0]))
        Array([0.+0.j, 2.+0.j, 0.+0.j], dtype=complex64)
    """
    return _along_one("rfft", FftType.RFFT, a, n, axis, norm)


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the inverse of `rfft`: a real array of size `n`.

    The size is not in the half that is given: an odd one has to be named.

    Example:
        >>> x = jnp.array([1.0, 2.0, 4.0])
        >>> jnp.fft.irfft(jnp.fft.rfft(x), n=3).round(4), jnp.fft.irfft(jnp.fft.rfft(x)).shape
        (Array([1., 2., 4.], dtype=float32), (2,))
    """
    return _along_one("irfft", FftType.IRFFT, a, n, axis, norm)


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the real Fourier transform of a Hermitian array, of which half is given.

    Example:
        >>> jnp.fft.hfft(jnp.array([1.0, 2.0, 3.0]))
        Array([ 8., -2.,  0., -2.], dtype=float32)
    """
    _check_norm("hfft", norm)
    return _along_one("hfft", FftType.IRFFT, conj(a), n, axis, _SWAPPED[norm])


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the inverse of `hfft`: half of a Hermitian array.

    Example:
        >>> jnp.fft.ihfft(jnp.fft.hfft(jnp.array([1.0, 2.0, 3.0]))).real
        Array([1., 2., 3.], dtype=float32)
    """
    _check_norm("ihfft", norm)
    return conj(_along_one("ihfft", FftType.RFFT, a, n, axis, _SWAPPED[norm]))


def fft2(
    a: ArrayLike, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """Return the Fourier transform along two axes, first truncated or zero-padded to sizes `s`.

    Example:
        >>> jnp.fft.fft2(jnp.ones((2, 2))).real
        Array([[4., 0.],
               [0., 0.]], dtype=float32)
    """
    return _along_two("fft2", FftType.FFT, a, s, axes, norm)


def ifft2(
    a: ArrayLike, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """Return the inverse Fourier transform along two axes.

    Example:
        >>> x = jnp.arange(4.0).reshape(2, 2)
        >>> jnp.fft.ifft2(jnp.fft.fft2(x)).real
        Array([[0., 1.],
               [2., 3.]], dtype=float32)
    """
    return _along_two("ifft2", FftType.IFFT, a, s, axes, norm)


def rfft2(
    a: ArrayLike, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """Return the non-redundant half of the Fourier transform of a real array along two axes.

    Example:
        >>> jnp.fft.rfft2(jnp.ones((2, 4))).shape
        (2, 3)
    """
    return _along_two("rfft2", FftType.RFFT, a, s, axes, norm)


def irfft2(
    a: ArrayLike, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """Return the inverse of `rfft2`: a real array of sizes `s`.

    Example:
        >>> x = jnp.arange(8.0).reshape(2, 4)
        >>> jnp.fft.irfft2(jnp.fft.rfft2(x)).round(4)
        Array([[0., 1., 2., 3.],
               [4., 5., 6., 7.]], dtype=float32)
    """
    return _along_two("irfft2", FftType.IRFFT, a, s, axes, norm)


def fftn(
    a: ArrayLike, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """Return the Fourier transform along several axes, all of them by default.

    Example:
        >>> jnp.fft.fftn(jnp.ones((2, 2, 2)))[0, 0]
        Array([8.+0.j, 0.+0.j], dtype=complex64)
    """
    return _transformed("fftn", FftType.FFT, a, s, axes, norm)


def ifftn(
    a: ArrayLike, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """Return the inverse Fourier transform along several axes.

    Example:
        >>> x = jnp.arange(4.0).reshape(2, 2)
        >>> jnp.fft.ifftn(jnp.fft.fftn(x)).real
        Array([[0., 1.],
               [2., 3.]], dtype=float32)
    """
    return _transformed("ifftn", FftType.IFFT, a, s, axes, norm)


def rfftn(
    a: ArrayLike, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """Return the non-redundant half (along the last axis) of a real array's Fourier transform.

    Example:
        >>> jnp.fft.rfftn(jnp.ones((2, 3, 4))).shape
        (2, 3, 3)
    """
    return _transformed("rfftn", FftType.RFFT, a, s, axes, norm)


def irfftn(
    a: ArrayLike, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """Return the inverse of `rfftn`: a real array of sizes `s`.

    Example:
        >>> x = jnp.arange(8.0).reshape(2, 4)
        >>> jnp.fft.irfftn(jnp.fft.rfftn(x)).round(4)
        Array([[0., 1., 2., 3.],
               [4., 5., 6., 7.]], dtype=float32)
    """
    return _transformed("irfftn", FftType.IRFFT, a, s, axes, norm)


def _frequencies(name: str, n: Any, d: Any, dtype: Any, numbers: Sequence[int]) -> Any:
    wanted = dtypes.default_float_dtype() if dtype is None else dtypes.check_user_dtype(dtype, name)
    counted = asarray(np.asarray(numbers, np.int64).astype(np.int32))
    return divide(cast(counted, dtypes.to_inexact_dtype(wanted)), multiply(d, n))


def _checked(name: str, n: Any, d: Any) -> int:
    for letter, value, what in (("n", n, "an int"), ("d", d, "a single value")):
        if isinstance(value, (tuple, list)):
            raise ValueError(
                three_lines(
                    f"fft.{name}({letter}={value!r}) at {current_source()}",
                    f"The {letter} argument of jax.numpy.fft.{name} only takes {what}. Got "
                    f"{letter} = {list(value)}.",
                    "pass a number",
                )
            )
    return int(n)


def fftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None
) -> Array:
    """Return the frequencies of an `fft` of `n` samples `d` apart: 0, 1, ..., -2, -1 over n d.

    Example:
        >>> jnp.fft.fftfreq(4, d=0.5)
        Array([ 0. ,  0.5, -1. , -0.5], dtype=float32)
    """
    count = _checked("fftfreq", n, d)
    numbers = [*range((count + 1) // 2), *range(-(count // 2), 0)]
    out = _frequencies("fftfreq", count, d, dtype, numbers)
    if dtype is not None:
        out = cast(out, dtypes.check_user_dtype(dtype, "fftfreq"))
    return put(out, device)


def rfftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None
) -> Array:
    """Return the frequencies of an `rfft` of `n` samples `d` apart: 0, 1, ..., n // 2 over n d.

    Example:
        >>> jnp.fft.rfftfreq(4, d=0.5)
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    count = _checked("rfftfreq", n, d)
    return put(_frequencies("rfftfreq", count, d, dtype, range(count // 2 + 1)), device)


def fftshift(x: ArrayLike, axes: Axes = None) -> Array:
    """Move the zero frequency to the middle of axes, all of them by default.

    Example:
        >>> jnp.fft.fftshift(jnp.fft.fftfreq(5, d=0.2))
        Array([-2., -1.,  0.,  1.,  2.], dtype=float32)
    """
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: ArrayLike, axes: Axes = None) -> Array:
    """Undo `fftshift`.

    Example:
        >>> jnp.fft.ifftshift(jnp.fft.fftshift(jnp.arange(5)))
        Array([0, 1, 2, 3, 4], dtype=int32)
    """
    return _shifted("ifftshift", x, axes, -1)


def _shifted(name: str, x: Any, axes: Any, sign: int) -> Any:
    x = one(name, x)
    rank = len(x.shape)
    found = range(rank) if axes is None else canonical_axes(name, axes, rank)
    # For odd sizes the two differ: the floor of n / 2 and of -n / 2.
    shift = [x.shape[axis] // 2 if sign > 0 else -(x.shape[axis] // 2) for axis in found]
    return roll(x, shift, tuple(found))


_suggest_names(globals())
