"""Discrete cosine transforms, of the types 1 to 4, by complex Fourier transforms.

Sources: Makhoul, "A fast cosine transform in one and two dimensions" (1980); Rao and Yip, "Discrete
cosine transform" (1990).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import current_source
from kiln.core.array_type import Array
from kiln.numpy import fft as transforms
from kiln.numpy.promotion import inexact, lifted
from kiln.ops.elements.conversion import complex
from kiln.ops.shape import canonical_axis

__all__ = ["dct", "dctn", "idct", "idctn"]

_NORMS = (None, "backward", "ortho", "forward")
_INVERSES = {1: 1, 2: 3, 3: 2, 4: 4}


def _refused(asked: str, wrong: str, remedy: str, kind: type[Exception] = ValueError) -> Exception:
    return kind(three_lines(f"{asked} at {current_source()}", wrong, remedy))


def _checked(name: str, x: Any, type: int, norm: str | None) -> Any:
    asked = f"{name} of type {type}, norm={norm!r}"
    if type not in _INVERSES:
        raise _refused(asked, "Only DCT types 1 to 4 are implemented.", "use type=2")
    if norm not in _NORMS:
        raise _refused(asked, f"norm={norm!r} is not implemented", 'use norm="ortho"')
    return lifted(inexact(name, jnp.asarray(x)))


def _resized(x: Any, n: int | None, axis: int) -> Any:
    """Cut an axis to `n` elements, or fill it up with zeros."""
    size = x.shape[axis]
    if n is None or n == size:
        return x
    if n < size:
        index = [slice(None)] * x.ndim
        index[axis] = slice(n)
        return x[tuple(index)]
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, n - size)
    return jnp.pad(x, widths)


def _turned(angles: np.ndarray, x: Any) -> Any:
    """Return exp(-i angle) in the precision of an array, along its last axis."""
    wide = np.complex128 if x.dtype == np.float64 else np.complex64
    factors = np.exp(-1j * angles).astype(wide)
    return jnp.asarray(factors.reshape((1,) * (x.ndim - 1) + factors.shape))


def _cosines(x: Any, type: int) -> Any:
    """Return the transform of the last axis, as SciPy's with norm="backward"."""
    n = x.shape[-1]
    k = np.arange(n)
    if type == 1:
        if n < 2:
            raise _refused(
                "dct of type 1", "DCT-I is not defined for size < 2", "pass at least two numbers"
            )
        both = jnp.concatenate([x, jnp.flip(x[..., 1:-1], -1)], axis=-1)
        return transforms.rfft(both).real
    if type == 2:
        mixed = jnp.concatenate([x[..., ::2], jnp.flip(x[..., 1::2], -1)], axis=-1)
        return 2 * (transforms.fft(mixed) * _turned(math.pi * k / (2 * n), x)).real
    if type == 3:
        # The inverse of type 2: what its Fourier transform was, from the parts of a real signal.
        back = jnp.concatenate([jnp.zeros_like(x[..., :1]), jnp.flip(x[..., 1:], -1)], axis=-1)
        spectrum = complex(x, -back) * jnp.conj(_turned(math.pi * k / (2 * n), x))
        mixed = transforms.ifft(spectrum).real * n
        half = (n + 1) // 2
        out = jnp.zeros_like(mixed).at[..., ::2].set(mixed[..., :half])
        return out.at[..., 1::2].set(jnp.flip(mixed[..., half:], -1))
    turn = _turned(math.pi * (2 * k + 1) / (4 * n), x)
    start = complex(x * turn.real, x * turn.imag)
    whole = transforms.fft(start, n=2 * n)[..., :n]
    return 2 * (whole * _turned(math.pi * k / (2 * n), x)).real


def _ends(x: Any, first: float, last: float | None = None) -> Any:
    out = x.at[..., 0].multiply(first)
    return out if last is None else out.at[..., -1].multiply(last)


def _scaled(x: Any, type: int, norm: str | None, inverse: bool) -> Any:
    n = x.shape[-1]
    whole = 2 * (n - 1) if type == 1 else 2 * n
    root = math.sqrt(2)
    if norm == "ortho":
        # Orthonormal matrices weigh the ends of types 1 to 3.
        if type == 1:
            out = _cosines(_ends(x, root, root), 1) / math.sqrt(whole)
            return _ends(out, 1 / root, 1 / root)
        if type == 2:
            return _ends(_cosines(x, 2), 1 / root) / math.sqrt(whole)
        if type == 3:
            return _cosines(_ends(x, root), 3) / math.sqrt(whole)
        return _cosines(x, 4) / math.sqrt(whole)
    divided = (norm == "forward") != inverse
    out = _cosines(x, type)
    return out / whole if divided else out


def _transformed(x: Any, type: int, axis: int, norm: str | None, inverse: bool) -> Any:
    if jnp.iscomplexobj(x):
        parts = [_transformed(part, type, axis, norm, inverse) for part in (x.real, x.imag)]
        return complex(*parts)
    dtype = x.dtype
    wide = x if dtypes.bit_width(dtype) >= 32 else x.astype(np.float32)
    rows = jnp.moveaxis(wide, axis, -1)
    found = _scaled(rows, _INVERSES[type] if inverse else type, norm, inverse)
    return jnp.moveaxis(found, -1, axis).astype(dtype)


def dct(
    x: Array, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """Return the discrete cosine transform along an axis, cut or filled up to `n` elements.

    `norm` is None or "backward" (no factor), "forward" (1 / 2n), or "ortho".

    Complex numbers are transformed by their parts.

    Raises: ValueError for another type or norm.
    Example:
        >>> kiln.scipy.fft.dct(jnp.array([1.0, 1.0])).round(4)
        Array([4., 0.], dtype=float32)
    """
    found = _checked("dct", x, type, norm)
    axis = canonical_axis("dct", axis, found.ndim)
    return _transformed(_resized(found, n, axis), type, axis, norm, False)


def idct(
    x: Array, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """Return the inverse of `dct` with the same type and norm.

    Complex numbers are transformed by their parts.

    Raises: ValueError for another type or norm.
    Example:
        >>> kiln.scipy.fft.idct(kiln.scipy.fft.dct(jnp.array([1.0, 2.0]))).round(4)
        Array([1., 2.], dtype=float32)
    """
    found = _checked("idct", x, type, norm)
    axis = canonical_axis("idct", axis, found.ndim)
    return _transformed(_resized(found, n, axis), type, axis, norm, True)


def _of_axes(
    name: str, x: Any, type: int, s: Any, axes: Any, norm: str | None, inverse: bool
) -> Any:
    found = _checked(name, x, type, norm)
    if axes is None:
        axes = range(found.ndim) if s is None else range(found.ndim - len(s), found.ndim)
    places = [canonical_axis(name, axis, found.ndim) for axis in axes]
    sizes = [None] * len(places) if s is None else list(s)
    if len(sizes) != len(places):
        raise _refused(
            f"{name} with s={s}, axes={axes}",
            "s and axes must have the same length",
            "pass a size for each axis",
        )
    for size, axis in zip(sizes, places, strict=True):
        found = _resized(found, size, axis)
    for axis in places:
        found = _transformed(found, type, axis, norm, inverse)
    return found


def dctn(
    x: Array,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Return the discrete cosine transform along several axes, all of them by default.

    Complex numbers are transformed by their parts.

    Raises: ValueError for another type or norm.
    Example:
        >>> kiln.scipy.fft.dctn(jnp.ones((2, 2))).round(4)
        Array([[16.,  0.],
               [ 0.,  0.]], dtype=float32)
    """
    return _of_axes("dctn", x, type, s, axes, norm, False)


def idctn(
    x: Array,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Return the inverse of `dctn` with the same arguments.

    Complex numbers are transformed by their parts.

    Raises: ValueError for another type or norm.
    Example:
        >>> x = jnp.arange(4.0).reshape(2, 2)
        >>> kiln.scipy.fft.idctn(kiln.scipy.fft.dctn(x)).round(4)
        Array([[0., 1.],
               [2., 3.]], dtype=float32)
    """
    return _of_axes("idctn", x, type, s, axes, norm, True)


_suggest_names(globals())
