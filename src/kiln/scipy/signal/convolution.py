"""Convolution and correlation of arrays with any number of axes, directly or by transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy import fft
from kiln.numpy.promotion import lifted, promote_dtypes_inexact
from kiln.ops.linear.convolution import conv_general_dilated
from kiln.ops.shape import canonical_axis

MODES = ("full", "same", "valid")


def refused(asked: str, wrong: str, remedy: str, kind: type[Exception] = ValueError) -> Exception:
    """Build the error for what a function does not accept.

    `asked` was requested, `wrong` is what is not accepted, `remedy` what to write instead; `kind`
    is the class.
    """
    return kind(three_lines(f"{asked} at {current_source()}", wrong, remedy))


def _checked(name: str, in1: Any, in2: Any, mode: str) -> tuple[Any, Any]:
    x, y = (lifted(v) for v in promote_dtypes_inexact(jnp.asarray(in1), jnp.asarray(in2)))
    asked = f"{name} of {x.aval}, {y.aval} with mode={mode!r}"
    if mode not in MODES:
        raise refused(asked, f"mode must be one of {list(MODES)}", 'use mode="full"')
    if x.ndim != y.ndim:
        raise refused(
            asked, "in1 and in2 must have the same number of dimensions", "add axes to one of them"
        )
    if x.size == 0 or y.size == 0:
        raise refused(asked, f"zero-size arrays not supported in {name}", "pass longer arrays")
    return x, y


def _exchanged(name: str, x: Any, y: Any, mode: str, axes: Sequence[int]) -> bool:
    """Say whether in mode "valid" the second operand is the larger one.

    Raises: ValueError if neither is at least as large along every axis.
    """
    if mode != "valid":
        return False
    if all(x.shape[i] >= y.shape[i] for i in axes):
        return False
    if all(y.shape[i] >= x.shape[i] for i in axes):
        return True
    raise refused(
        f"{name} of {x.aval}, {y.aval} with mode='valid'",
        "For 'valid' mode, one input must be at least as large as the other in every dimension",
        'use mode="full"',
    )


def _directly(name: str, x: Any, y: Any, mode: str, precision: Any) -> Any:
    """Slide the mirrored y along x."""
    if _exchanged(name, x, y, mode, range(x.ndim)):
        x, y = y, x
    if x.ndim == 0:
        return x * y
    padding = []
    for size in y.shape:
        # "same" is the middle of "full", with as many elements as x.
        before = {"full": size - 1, "same": size // 2, "valid": 0}[mode]
        after = {"full": size - 1, "same": size - 1 - size // 2, "valid": 0}[mode]
        padding.append((before, after))
    out = conv_general_dilated(
        x[None, None],
        jnp.flip(y)[None, None],
        (1,) * x.ndim,
        padding,
        precision=precision,
        preferred_element_type=x.dtype,
    )
    return out[0, 0]


def convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Array:
    """Convolve two arrays; `mode` says which part to return: "full", "same" as in1, or "valid".

    `method` is "direct", "fft", or "auto" for "direct".

    Raises: ValueError for another mode or method, or arrays of different numbers of axes.
    Example:
        >>> x, kernel = jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0])
        >>> kiln.scipy.signal.convolve(x, kernel, mode="same")
        Array([1., 3., 5.], dtype=float32)
    """
    if method not in ("auto", "direct", "fft"):
        raise refused(
            f"convolve with method={method!r}",
            f"Got {method=}; expected 'auto', 'fft', or 'direct'.",
            "leave method out",
        )
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    x, y = _checked("convolve", in1, in2, mode)
    return _directly("convolve", x, y, mode, precision)


def correlate(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Array:
    """Correlate two arrays: convolve the first with the mirrored conjugate of the second.

    Raises: ValueError for another mode or method, or arrays of different numbers of axes.
    Example:
        >>> x, kernel = jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0])
        >>> kiln.scipy.signal.correlate(x, kernel, mode="valid")
        Array([2., 3.], dtype=float32)
    """
    x, y = _checked("correlate", in1, in2, mode)
    if _exchanged("correlate", x, y, mode, range(x.ndim)):
        # The result of exchanged operands is mirrored.
        return jnp.conj(jnp.flip(convolve(y, jnp.flip(jnp.conj(x)), mode, method, precision)))
    return convolve(x, jnp.flip(jnp.conj(y)), mode, method, precision)


def _matrices(name: str, in1: Any, in2: Any, boundary: str, fillvalue: float) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise refused(
            f"{name} with boundary={boundary!r}, fillvalue={fillvalue}",
            f"{name}() only supports boundary='fill', fillvalue=0",
            "pad the first array with kiln.numpy.pad",
            NotImplementedError,
        )
    if jnp.ndim(in1) != 2 or jnp.ndim(in2) != 2:
        raise refused(
            f"{name} of {jnp.ndim(in1)} and {jnp.ndim(in2)} dimensions",
            f"{name}() only supports 2-dimensional inputs.",
            f"use {name[:-2]}",
        )


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """Convolve two matrices; see `convolve`.

    Raises: NotImplementedError for another boundary than zeros, ValueError for other shapes.
    Example:
        >>> kiln.scipy.signal.convolve2d(jnp.ones((2, 2)), jnp.ones((2, 2)), mode="valid")
        Array([[4.]], dtype=float32)
    """
    _matrices("convolve2d", in1, in2, boundary, fillvalue)
    return convolve(in1, in2, mode, precision=precision)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """Correlate two matrices; see `correlate`.

    Raises: NotImplementedError for another boundary than zeros, ValueError for other shapes.
    Example:
        >>> kiln.scipy.signal.correlate2d(jnp.ones((2, 2)), jnp.ones((2, 2)), mode="valid")
        Array([[4.]], dtype=float32)
    """
    _matrices("correlate2d", in1, in2, boundary, fillvalue)
    if mode != "same":
        return correlate(in1, in2, mode, precision=precision)
    # Of matrices SciPy takes the other of two middles, where the second has even sizes.
    x, y = jnp.asarray(in1), jnp.asarray(in2)
    starts = [size // 2 for size in y.shape]
    full = correlate(x, y, precision=precision)
    return full[tuple(slice(a, a + n) for a, n in zip(starts, x.shape, strict=True))]


def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Sequence[int] | None = None
) -> Array:
    """Convolve two arrays by Fourier transforms along `axes`, all of them by default.

    The other axes broadcast.

    Raises: ValueError for another mode, or shapes that do not fit.
    Example:
        >>> kiln.scipy.signal.fftconvolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0])).round(4)
        Array([1., 3., 2.], dtype=float32)
    """
    x, y = _checked("fftconvolve", in1, in2, mode)
    places = (
        list(range(x.ndim))
        if axes is None
        else [canonical_axis("fftconvolve", i, x.ndim) for i in np.atleast_1d(np.asarray(axes))]
    )
    for i in range(x.ndim):
        if i not in places and x.shape[i] != y.shape[i] and 1 not in (x.shape[i], y.shape[i]):
            raise refused(
                f"fftconvolve of {x.aval}, {y.aval} along {places}",
                "incompatible shapes for in1 and in2",
                "the axes that are not transformed must broadcast",
            )
    if not places:
        return x * y
    if _exchanged("fftconvolve", x, y, mode, places):
        x, y = y, x
    dtype = x.dtype
    if dtypes.bit_width(dtype) < 32:
        x, y = x.astype(np.float32), y.astype(np.float32)
    sizes = [x.shape[i] + y.shape[i] - 1 for i in places]
    quick = [_quick(size) for size in sizes]
    if jnp.iscomplexobj(x):
        product = fft.fftn(x, quick, places) * fft.fftn(y, quick, places)
        full = fft.ifftn(product, quick, places)
    else:
        product = fft.rfftn(x, quick, places) * fft.rfftn(y, quick, places)
        full = fft.irfftn(product, quick, places)
    index = [slice(None)] * full.ndim
    for place, size in zip(places, sizes, strict=True):
        m, n = x.shape[place], y.shape[place]
        start = {"full": 0, "same": (n - 1) // 2, "valid": n - 1}[mode]
        count = {"full": size, "same": m, "valid": m - n + 1}[mode]
        index[place] = slice(start, start + count)
    return full[tuple(index)].astype(dtype)


def _quick(size: int) -> int:
    """Return the next size that has no prime factors but 2, 3 and 5."""
    while True:
        rest = size
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return size
        size += 1
