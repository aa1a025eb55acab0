"""Discrete Fourier transforms over the last axes, of complex arrays or of real ones.

A real array's transform is Hermitian, so RFFT returns half of the last axis and IRFFT takes half.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.counting import broadcasted_iota
from kiln.ops.elements.conversion import conj, convert_element_type, real
from kiln.ops.elements.elementwise import bitwise_and, mul, ne, select
from kiln.ops.elements.families import constant, full_like
from kiln.ops.indexing.static_slicing import pad
from kiln.ops.linear.matrices import complex_dtype, real_dtype
from kiln.ops.linear_op import LinearOp
from kiln.ops.out_sharding import whole_along
from kiln.ops.shape import elements, to_front


class FftType(enum.IntEnum):
    """The kind of transform: forward or inverse, of complex or of real arrays.

    Example:
        >>> lax.fft(jnp.array([1.0, 2.0]), lax.FftType.RFFT, (2,))
        Array([ 3.+0.j, -1.+0.j], dtype=complex64)
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


MOST_AXES = 3
_PLAIN = (np.dtype(np.float32), np.dtype(np.float64))
_COMPLEX = (np.dtype(np.complex64), np.dtype(np.complex128))


class FFT(LinearOp):
    """Transform the last axes, which have the sizes `fft_lengths` (on the real side)."""

    name = "fft"
    # NumPy's results differ in rows with infinities, and it is slower.
    on_host = False

    def infer(self, x: Any, *, fft_type: FftType, fft_lengths: Any) -> ShapedArray:
        accepted = _PLAIN if fft_type is FftType.RFFT else _COMPLEX
        if x.dtype not in accepted:
            names = " or ".join(map(str, accepted))
            raise _refused(
                x,
                fft_lengths,
                f"{fft_type.name} input must be {names}, got {dtypes.long_name(x.dtype)}",
                "convert the operand first: x.astype(...)",
            )
        count = len(fft_lengths)
        if count > MOST_AXES:
            raise _refused(
                x,
                fft_lengths,
                f"at most {MOST_AXES} axes are transformed at once",
                "transform some axes after the others",
            )
        if x.ndim < count:
            raise _refused(
                x,
                fft_lengths,
                f"{fft_type.name} input shape {tuple(x.shape)} must have at least as many input "
                f"dimensions as fft_lengths {tuple(fft_lengths)}.",
                "name fewer axes",
            )
        lengths = list(fft_lengths)
        half = [*lengths[:-1], lengths[-1] // 2 + 1] if lengths else []
        before = half if fft_type is FftType.IRFFT else lengths
        after = half if fft_type is FftType.RFFT else lengths
        stack = x.shape[: x.ndim - count]
        if fft_type is FftType.RFFT and lengths and lengths[-1] == 0:
            raise _refused(
                x,
                fft_lengths,
                "the transform of no numbers has one, which is not defined",
                "transform an axis with at least one element",
            )
        if list(x.shape[x.ndim - count :]) != before and 0 not in x.shape:
            raise _refused(
                x,
                fft_lengths,
                f"{fft_type.name} input shape {tuple(x.shape)} minor dimensions must be equal to "
                f"fft_lengths {tuple(fft_lengths)}",
                f"give the operand the sizes {tuple(before)} in its last axes",
            )
        dtype = complex_dtype(x.dtype)
        if fft_type is FftType.IRFFT:
            dtype = real_dtype(x.dtype)
        return ShapedArray((*stack, *after), dtype)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        count = len(params["fft_lengths"])
        return whole_along(self.name, xs[0], range(xs[0].ndim - count, xs[0].ndim))

    def numpy(self, x: Any, *, fft_type: FftType, fft_lengths: Any) -> Any:
        axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
        types = {"fft_type": fft_type, "fft_lengths": fft_lengths}
        out = self.infer(ShapedArray(x.shape, x.dtype), **types)
        if not axes:
            return x.astype(out.dtype)
        if 0 in (*x.shape, *out.shape):
            return np.zeros(out.shape, out.dtype)
        transforms: dict[FftType, Any] = {
            FftType.FFT: np.fft.fftn,
            FftType.IFFT: np.fft.ifftn,
            FftType.RFFT: np.fft.rfftn,
            FftType.IRFFT: np.fft.irfftn,
        }
        return transforms[fft_type](x, fft_lengths, axes)

    def transpose(self, ct: Any, x: Any, *, fft_type: FftType, fft_lengths: Any) -> Any:
        if fft_type in (FftType.FFT, FftType.IFFT):
            return [fft(ct, fft_type, fft_lengths)]
        if not fft_lengths:
            return [convert_element_type(real(ct), x.dtype) if fft_type is FftType.RFFT else ct]
        if fft_type is FftType.RFFT:
            return [_pulled_to_real(ct, x.aval, fft_lengths)]
        return [_pulled_to_half(ct, fft_lengths)]

    def batch(
        self, size: Any, xs: Sequence[Any], axes: Sequence[Any], *, fft_type: Any, fft_lengths: Any
    ) -> Any:
        return fft(to_front(xs[0], axes[0]), fft_type, fft_lengths), 0


def _refused(x: ShapedArray, lengths: Any, wrong: str, remedy: str) -> ValueError:
    asked = f"fft: operand {x}, fft_lengths {tuple(lengths)} at {current_source()}"
    return ValueError(three_lines(asked, wrong, remedy))


def _pulled_to_real(ct: Any, x: ShapedArray, lengths: Any) -> Any:
    """Pull back through RFFT: the kept half, padded with zeros, transformed."""
    half = aval_of(ct)
    config = [(0, 0, 0)] * half.ndim
    config[-1] = (0, lengths[-1] - half.shape[-1], 0)
    whole = pad(ct, constant(0, ct), config)
    return real(fft(whole, FftType.FFT, lengths))


def _pulled_to_half(ct: Any, lengths: Any) -> Any:
    """Pull back through IRFFT: elements that are not their own mirror image count twice."""
    half = conj(fft(ct, FftType.RFFT, lengths))
    aval = aval_of(half)
    place = broadcasted_iota(np.int32, aval.shape, aval.ndim - 1)
    twice = ne(place, constant(0, place))
    if lengths[-1] % 2 == 0:
        twice = bitwise_and(twice, ne(place, constant(lengths[-1] // 2, place)))
    once = 1 / elements(lengths)
    return mul(half, select(twice, full_like(half, 2 * once), full_like(half, once)))


fft_p = FFT()


def fft(x: ArrayLike, fft_type: FftType | str | int, fft_lengths: Sequence[int]) -> Array:
    """Transform the last axes; `fft_lengths` are their sizes, for IRFFT those of the result.

    Raises: ValueError for another type of transform, or incompatible sizes.
    Example:
        >>> lax.fft(jnp.array([1.0 + 0j, 2.0]), "FFT", (2,))
        Array([ 3.+0.j, -1.+0.j], dtype=complex64)
    """
    kind = _kind(fft_type)
    lengths = tuple(int(n) for n in fft_lengths)
    found = aval_of(x).dtype
    is_complex = dtypes.issubdtype(found, np.complexfloating)
    if kind is FftType.RFFT:
        if is_complex:
            raise _refused(
                aval_of(x),
                lengths,
                "only real valued inputs supported for rfft",
                "use FFT, or take the real part",
            )
        x = convert_element_type(x, dtypes.to_inexact_dtype(found))
    elif not is_complex:
        x = convert_element_type(
            x, dtypes.common_dtype(dtypes.to_inexact_dtype(found), np.dtype(np.complex64))
        )
    return fft_p.bind(x, fft_type=kind, fft_lengths=lengths)


def _kind(given: Any) -> FftType:
    if isinstance(given, FftType):
        return given
    if isinstance(given, str) and given.upper() in FftType.__members__:
        return FftType[given.upper()]
    is_text = isinstance(given, str)
    raise (ValueError if is_text else TypeError)(
        three_lines(
            f"fft with fft_type={given!r} at {current_source()}",
            f"Unknown FFT type {'' if is_text else 'value '}'{given}'",
            f"use {', '.join(FftType.__members__)}",
        )
    )
