"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.creation.arrays import asarray, cast, concrete_number
from kiln.numpy.creation.filling import full as filled
from kiln.numpy.creation.filling import zeros
from kiln.numpy.creation.matrices import eye, vander
from kiln.numpy.elements.arithmetic import add, divide, multiply, negative, square, subtract
from kiln.numpy.elements.elementary import sqrt
from kiln.numpy.elements.logic import choose_by
from kiln.numpy.manipulation.joining import concatenate
from kiln.numpy.products import matmul
from kiln.numpy.promotion import one, operands, promote_dtypes, promote_dtypes_inexact, shape_of
from kiln.numpy.reductions.reductions import sum
from kiln.numpy.shapes import atleast_1d
from kiln.numpy.signals.convolution import convolve
from kiln.ops.counting import iota
from kiln.ops.elements import elementwise
from kiln.ops.elements.elementwise import constant
from kiln.ops.indexing.static_slicing import index_in_dim, pad, slice_in_dim
from kiln.ops.linear import spectral
from kiln.ops.shape import expand_dims, reshape


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """Evaluate the polynomial with coefficients `p`, the highest power first, at x.

    The loop over coefficients is unrolled by `unroll`.

    Example:
        >>> jnp.polyval(jnp.array([1.0, 0.0, -2.0]), jnp.array([0.0, 3.0]))
        Array([-2.,  7.], dtype=float32)
    """
    p, x = promote_dtypes(*operands("polyval", p, x))
    p, x = one("polyval", p), one("polyval", x)
    out = filled(shape_of(x), 0, p.dtype)
    for i in range(p.shape[0]):
        out = add(multiply(out, x), index_in_dim(p, i, 0, keepdims=False))
    return out


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Add polynomials.

    Example:
        >>> jnp.polyadd(jnp.array([1, 2, 3]), jnp.array([10, 20]))
        Array([ 1, 12, 23], dtype=int32)
    """
    return add(*_aligned("polyadd", a1, a2))


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Subtract polynomials.

    Example:
        >>> jnp.polysub(jnp.array([1, 2, 3]), jnp.array([10, 20]))
        Array([  1,  -8, -17], dtype=int32)
    """
    return subtract(*_aligned("polysub", a1, a2))


def _aligned(name: str, a1: Any, a2: Any) -> Any:
    a1, a2 = promote_dtypes(one(name, a1), one(name, a2))
    size = max(a1.shape[0], a2.shape[0])
    return [pad(x, constant(0, x), [(size - x.shape[0], 0, 0)]) for x in (a1, a2)]


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Multiply polynomials.

    Example:
        >>> jnp.polymul(jnp.array([1, -1]), jnp.array([1, -2]))
        Array([ 1., -3.,  2.], dtype=float32)
    """
    a1, a2 = promote_dtypes_inexact(one("polymul", a1), one("polymul", a2))
    if trim_leading_zeros:
        a1, a2 = _trimmed(a1), _trimmed(a2)
    if a1.shape[0] == 0:
        a1 = asarray([0], a1.dtype)
    if a2.shape[0] == 0:
        a2 = asarray([0], a2.dtype)
    return convolve(a1, a2)


def _trimmed(a: Any) -> Any:
    used = np.flatnonzero(np.asarray(a))
    return slice_in_dim(a, int(used[0]) if used.size else a.shape[0], None)


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Divide polynomials; return quotient and remainder.

    Example:
        >>> jnp.polydiv(jnp.array([1.0, -3.0, 2.0]), jnp.array([1.0, -1.0]))
        (Array([ 1., -2.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    u, v = promote_dtypes_inexact(one("polydiv", u), one("polydiv", v))
    m, n = u.shape[0] - 1, v.shape[0] - 1
    lead = divide(1.0, index_in_dim(v, 0, 0, keepdims=False))
    quotient = []
    for k in range(m - n + 1):
        factor = multiply(lead, index_in_dim(u, k, 0, keepdims=False))
        quotient.append(factor)
        change = pad(multiply(factor, v), constant(0, v), [(k, m - n - k, 0)])
        u = subtract(u, change)
    q = concatenate([atleast_1d(x) for x in quotient]) if quotient else zeros((1,), u.dtype)
    return q, _trimmed(u) if trim_leading_zeros else u  # type: ignore[return-value]


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Differentiate a polynomial m times.

    Coefficients `p` begin with the highest power.

    Example:
        >>> jnp.polyder(jnp.array([3.0, 2.0, 1.0]))
        Array([6., 2.], dtype=float32)
    """
    if m < 0:
        raise ValueError(
            f"polyder(m={m}) at {current_source()}\n"
            "Order of derivative must be positive\nuse 0 or more"
        )
    (p,) = promote_dtypes_inexact(one("polyder", p))
    for _ in range(m):
        n = p.shape[0]
        powers = subtract(n - 1, cast(iota(np.dtype(np.int32), n), p.dtype))
        p = slice_in_dim(multiply(p, powers), 0, max(n - 1, 0))
    return p  # type: ignore[return-value]


def polyint(p: ArrayLike, m: int = 1, k: Any = None) -> Array:
    """Integrate a polynomial m times, with constants k.

    Coefficients `p` begin with the highest power.

    Example:
        >>> jnp.polyint(jnp.array([6.0, 2.0]))
        Array([3., 2., 0.], dtype=float32)
    """
    if m < 0:
        raise ValueError(
            f"polyint(m={m}) at {current_source()}\n"
            "Order of integral must be positive\nuse 0 or more"
        )
    constants = atleast_1d(asarray(0 if k is None else k))
    p, constants = promote_dtypes_inexact(one("polyint", p), constants)
    if constants.shape[0] == 1 and m != 1:
        constants = concatenate([constants] * m) if m else zeros((0,), p.dtype)
    if constants.shape[0] != m:
        raise ValueError(
            three_lines(
                f"polyint(m={m}, k={constants.aval}) at {current_source()}",
                "k must be a scalar or a rank-1 array of length 1 or m.",
                "give one constant, or one per integration",
            )
        )
    for i in range(m):
        n = p.shape[0]
        powers = subtract(n, cast(iota(np.dtype(np.int32), n), p.dtype))
        p = concatenate([divide(p, powers), slice_in_dim(constants, i, i + 1)])
    return p  # type: ignore[return-value]


def poly(seq_of_zeros: ArrayLike) -> Array:
    """Return the polynomial with the given zeros, or the characteristic polynomial of a matrix.

    Example:
        >>> jnp.poly(jnp.array([1.0, 2.0]))
        Array([ 1., -3.,  2.], dtype=float32)
    """
    (zeros_,) = promote_dtypes_inexact(one("poly", seq_of_zeros))
    zeros_ = atleast_1d(zeros_)
    shape = zeros_.shape
    if len(shape) == 2 and shape[0] == shape[1] and shape[0] != 0:
        zeros_ = _eigenvalues(zeros_)
    elif len(shape) != 1:
        raise ValueError(
            three_lines(
                f"poly of {zeros_.aval} at {current_source()}",
                "input must be 1d or non-empty square 2d array.",
                "pass the zeros, or a matrix",
            )
        )
    elif shape[0] == 0:
        return filled((), 1, zeros_.dtype)
    out = filled((1,), 1, zeros_.dtype)
    for i in range(zeros_.shape[0]):
        root = index_in_dim(zeros_, i, 0, keepdims=False)
        longer = pad(out, constant(0, out), [(0, 1, 0)])
        out = subtract(longer, pad(multiply(root, out), constant(0, out), [(1, 0, 0)]))
    return out


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """Return the zeros of a polynomial; zero coefficients at the ends are dropped if known.

    In `jit` the zeros at the ends cannot be counted: pass `strip_zeros=False`.

    Example:
        >>> jnp.sort(jnp.roots(jnp.array([1.0, -3.0, 2.0])).real).round(4)
        Array([1., 2.], dtype=float32)
    """
    (p,) = promote_dtypes_inexact(atleast_1d(one("roots", p)))
    if len(p.shape) != 1:
        raise ValueError(
            f"roots of {p.aval} at {current_source()}\nInput must be a rank-1 array.\npass a vector"
        )
    trailing = 0
    if strip_zeros:
        used = np.flatnonzero(np.asarray(concrete_number("roots", "p", p)))
        if not used.size:
            return zeros((0,), dtypes.to_complex_dtype(p.dtype))
        trailing = p.shape[0] - 1 - int(used[-1])
        p = slice_in_dim(p, int(used[0]), int(used[-1]) + 1)
    n = p.shape[0] - 1
    out = zeros((trailing,), dtypes.to_complex_dtype(p.dtype))
    if n < 1:
        return out
    lead = index_in_dim(p, 0, 0, keepdims=False)
    top = reshape(negative(divide(slice_in_dim(p, 1, None), lead)), (1, n))
    companion = concatenate([top, eye(n - 1, n, dtype=p.dtype)]) if n > 1 else top
    found = _eigenvalues(companion)
    return concatenate([found, out]) if trailing else found


def _eigenvalues(x: Any) -> Any:
    (found,) = spectral.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    return found


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    cov: bool | str = False,
) -> Any:
    """Fit a polynomial to points by least squares, weighted by `w`.

    With `full`, also return residuals, rank, singular values and rcond; with `cov`, the covariance.

    Example:
        >>> x = jnp.arange(4.0)
        >>> jnp.polyfit(x, 2 * x + 1, 1).round(4)
        Array([2., 1.], dtype=float32)
    """
    x, y = promote_dtypes_inexact(one("polyfit", x), one("polyfit", y))
    if deg < 0 or len(x.shape) != 1 or not 1 <= len(y.shape) <= 2 or x.shape[0] != y.shape[0]:
        raise (ValueError if deg < 0 else TypeError)(
            three_lines(
                f"polyfit of points {x.aval}, {y.aval}, degree {deg} at {current_source()}",
                "expected deg >= 0, 1D vector for x, 1D or 2D array for y, of one length",
                "pass one value (or row of values) per point",
            )
        )
    limit = x.shape[0] * float(dtypes.finfo(x.dtype).eps) if rcond is None else rcond
    left, right = vander(x, deg + 1), y if len(y.shape) == 2 else expand_dims(y, (1,))
    if w is not None:
        weights = expand_dims(cast(one("polyfit", w), x.dtype), (1,))
        left, right = multiply(left, weights), multiply(right, weights)
    scale = sqrt(sum(multiply(left, left), 0))
    u, s, vt = spectral.svd(divide(left, expand_dims(scale, (0,))), full_matrices=False)
    kept = elementwise.gt(s, multiply(limit, index_in_dim(s, 0, 0, keepdims=False)))
    inverse = choose_by(kept, divide(1.0, choose_by(kept, s, 1.0)), 0.0)
    solved = matmul(vt.T, multiply(expand_dims(inverse, (1,)), matmul(u.T, right)))
    columns = divide(solved, expand_dims(scale, (1,)))
    c = columns if len(y.shape) == 2 else reshape(columns, (deg + 1,))
    if full:
        residuals = sum(square(subtract(matmul(left, columns), right)), 0)
        return c, residuals, sum(kept), s, limit
    if not cov:
        return c
    spread = matmul(multiply(vt.T, expand_dims(square(inverse), (0,))), vt)
    spread = divide(spread, multiply(expand_dims(scale, (1,)), expand_dims(scale, (0,))))
    if cov != "unscaled":
        if x.shape[0] <= deg + 1:
            raise ValueError(
                f"polyfit(deg={deg}, cov=True) of {x.aval} at {current_source()}\n"
                "the number of data points must exceed "
                "order to scale the covariance matrix\nuse cov='unscaled'"
            )
        residuals = sum(square(subtract(matmul(left, columns), right)), 0)
        factor = divide(residuals, x.shape[0] - (deg + 1))
        if len(y.shape) == 2:
            return c, multiply(expand_dims(spread, (2,)), expand_dims(factor, (0, 1)))
        spread = multiply(spread, expand_dims(factor, (0,)))
    return c, spread
