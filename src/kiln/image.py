"""Images resampled: `resize` to another shape, `scale_and_translate` by an affine map.

Each output pixel is a weighted sum of input pixels. The weights of one dimension form a matrix, and
an image is resampled by one product per dimension.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import api_boundary, current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.creation.arrays import asarray
from kiln.numpy.creation.filling import zeros
from kiln.numpy.creation.ranges import arange
from kiln.numpy.einsum import einsum
from kiln.numpy.elements.arithmetic import clip, maximum, minimum
from kiln.numpy.elements.elementary import sin
from kiln.numpy.indexing.selection import where
from kiln.numpy.promotion import inexact, promote_dtypes_inexact
from kiln.numpy.reductions.reductions import sum as total
from kiln.ops.elements.elementwise import abs as absolute
from kiln.ops.elements.elementwise import floor
from kiln.ops.linear.contraction import Precision
from kiln.ops.shape import canonical_axis

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How the pixels near a point are weighted.

    Example:
        >>> kiln.image.ResizeMethod.from_string("bilinear").name
        'LINEAR'
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """Return the method of a name, such as "bilinear".

        Raises: ValueError for another name.
        """
        if s not in _NAMES:
            raise ValueError(
                three_lines(
                    f"the resize method {s!r} at {current_source()}",
                    f'Unknown resize method "{s}"',
                    f"use one of: {', '.join(_NAMES)}",
                )
            )
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


def _linear(x: Any) -> Any:
    return maximum(0, 1 - x)


def _lanczos(radius: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        wave = radius * sin(math.pi * x) * sin(math.pi * x / radius)
        near = where(x > 1e-3, wave / where(x != 0, math.pi**2 * x**2, 1), 1)
        return where(x > radius, 0.0, near)

    return kernel


def _cubic(a: float) -> Callable[[Any], Any]:
    """Return Keys' cubic convolution kernel (IEEE Trans. ASSP 29, 1981) with parameter `a`."""

    def kernel(x: Any) -> Any:
        inner = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        outer = ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
        return where(x >= 2.0, 0.0, where(x >= 1.0, outer, inner))

    return kernel


class _Kernel(NamedTuple):
    """The weight of a pixel by its distance, and beyond which distance it is zero."""

    radius: int
    weight: Callable[[Any], Any] | None


_KERNELS = {
    ResizeMethod.LINEAR: _Kernel(1, _linear),
    ResizeMethod.LANCZOS3: _Kernel(3, _lanczos(3.0)),
    ResizeMethod.LANCZOS5: _Kernel(5, _lanczos(5.0)),
    ResizeMethod.CUBIC: _Kernel(2, _cubic(-0.5)),
    ResizeMethod.CUBIC_PYTORCH: _Kernel(2, _cubic(-0.75)),
    ResizeMethod.AREA: _Kernel(1, None),
}


@api_boundary
def resize(
    image: ArrayLike,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = Precision.HIGHEST,
) -> Array:
    """Return an image of another shape; pixels are centered at half-integers.

    With `antialias`, kernels are widened when the image shrinks.

    Raises: ValueError if the shape has another rank, or the method is unknown.
    Example:
        >>> kiln.image.resize(jnp.array([0.0, 1.0]), (4,), "linear")
        Array([0.  , 0.25, 0.75, 1.  ], dtype=float32)
    """
    x = asarray(image)
    _check_rank("resize", x, shape)
    kind = ResizeMethod.from_string(method) if isinstance(method, str) else method
    dims = [d for d in range(x.ndim) if x.shape[d] != shape[d]]
    if kind is ResizeMethod.NEAREST:
        return _nearest(x, shape, dims)
    x = asarray(inexact("resize", x))
    scale = [shape[d] / x.shape[d] if shape[d] else 1.0 for d in dims]
    return _resampled(x, shape, dims, scale, [0.0] * len(dims), kind, antialias, precision)


@api_boundary
def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = Precision.HIGHEST,
) -> Array:
    """Return an image of `shape` in which the point x of the given one is x * scale + translation.

    `scale` and `translation` have one number for each of `spatial_dims`. Points outside are zero.

    Raises: ValueError if the shape has another rank, for the nearest pixel, or for an unknown
        method.
    Example:
        >>> pixels = jnp.array([[1.0, 2.0], [3.0, 4.0]])
        >>> one, none = jnp.ones(2), jnp.zeros(2)
        >>> kiln.image.scale_and_translate(pixels, (2, 2), (0, 1), one, none, "linear").round(4)
        Array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    x = asarray(inexact("scale_and_translate", image))
    _check_rank("scale_and_translate", x, shape)
    kind = ResizeMethod.from_string(method) if isinstance(method, str) else method
    if kind is ResizeMethod.NEAREST:
        raise ValueError(
            three_lines(
                f"scale_and_translate with method={method!r} at {current_source()}",
                "Nearest neighbor resampling is not currently supported for scale_and_translate.",
                "use 'linear', or image.resize",
            )
        )
    both: Any = promote_dtypes_inexact(asarray(scale), asarray(translation))
    factors, shifts = ([each[i] for i in range(len(spatial_dims))] for each in both)
    return _resampled(x, shape, spatial_dims, factors, shifts, kind, antialias, precision)


def _check_rank(name: str, x: Any, shape: Sequence[int]) -> None:
    if len(shape) != x.ndim:
        raise ValueError(
            three_lines(
                f"{name} of an image of shape {x.shape} to {tuple(shape)} at {current_source()}",
                "shape must have length equal to the number of dimensions of x",
                f"give {x.ndim} sizes",
            )
        )


def _nearest(x: Array, shape: Sequence[int], dims: Sequence[int]) -> Array:
    for d in dims:
        size, wanted = x.shape[d], shape[d]
        offsets = (arange(wanted, dtype=np.float32) + 0.5) * size / wanted
        index: list[Any] = [slice(None)] * x.ndim
        index[d] = floor(offsets).astype(np.int32)
        x = x[tuple(index)]
    return x


def _resampled(
    x: Array,
    shape: Sequence[int],
    dims: Sequence[int],
    scale: Sequence[Any],
    translation: Sequence[Any],
    kind: ResizeMethod,
    antialias: bool,
    precision: Any,
) -> Array:
    if not len(dims):
        return x
    if kind is ResizeMethod.CUBIC_PYTORCH and antialias:
        kind = ResizeMethod.CUBIC
    operands: list[Any] = []
    out = list(range(x.ndim))
    for i, dim in enumerate(dims):
        d = canonical_axis("resize", dim, x.ndim)
        weights = _weights(x.shape[d], shape[d], scale[i], translation[i], kind, antialias)
        out[d] = x.ndim + i
        operands += [weights.astype(x.dtype), [d, out[d]]]
    terms: list[Any] = [x, list(range(x.ndim)), *operands, out]
    return einsum(*terms, precision=precision)


def _weights(
    size: int, wanted: int, scale: Any, translation: Any, kind: ResizeMethod, antialias: bool
) -> Any:
    """Return the matrix of the weights of `size` input pixels in `wanted` output pixels."""
    dtype = dtypes.result_type(scale, translation)
    inverse = 1.0 / scale
    radius, weight = _KERNELS[kind]
    centers = (arange(wanted, dtype=dtype) + 0.5) * inverse - translation * inverse - 0.5
    # Without antialiasing, this kernel repeats the pixels at the edges.
    padding = radius if kind is ResizeMethod.CUBIC_PYTORCH else 0
    places = arange(-padding, size + padding, dtype=dtype)
    if weight is None:
        left = arange(wanted, dtype=dtype) * inverse - translation * inverse
        ends = minimum((left + inverse)[None, :], places[:, None] + 1.0)
        found = maximum(0.0, ends - maximum(left[None, :], places[:, None]))
    else:
        # Shrinking is a low-pass filter; enlarging interpolates.
        width = maximum(inverse, 1.0) if antialias else 1.0
        found = weight(absolute(centers[None, :] - places[:, None]) / width)
    if padding:
        edge = clip(places.astype(np.int32), 0, size - 1)[:, None]
        found = zeros((size, wanted), dtype).at[edge, arange(wanted)[None, :]].add(found)
    whole = total(found, axis=0, keepdims=True)
    enough = absolute(whole) > 1000.0 * float(np.finfo(np.float32).eps)
    found = where(enough, found / where(whole != 0, whole, 1), 0)
    if padding:
        return found
    inside = (centers >= -0.5) & (centers <= size - 0.5)
    return where(inside[None, :], found, 0)


_suggest_names(globals())
