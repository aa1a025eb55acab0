"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.numpy.arithmetic import add, divide, multiply, subtract
from kiln.numpy.creation import asarray, cast, full, zeros
from kiln.numpy.joining import concatenate
from kiln.numpy.manipulation import atleast_1d, one
from kiln.numpy.promotion import operands, promote_dtypes, promote_dtypes_inexact, shape_of
from kiln.numpy.signals import convolve
from kiln.ops.elementwise import constant
from kiln.ops.shape import iota
from kiln.ops.static_slicing import index_in_dim, pad, slice_in_dim


def polyval(p: Any, x: Any, *, unroll: int = 16) -> Any:
    """Evaluate a polynomial at x."""
    p, x = promote_dtypes(*operands("polyval", p, x))
    p, x = one("polyval", p), one("polyval", x)
    out = full(shape_of(x), 0, p.dtype)
    for i in range(p.shape[0]):
        out = add(multiply(out, x), index_in_dim(p, i, 0, keepdims=False))
    return out


def polyadd(a1: Any, a2: Any) -> Any:
    """Add polynomials."""
    return add(*_aligned("polyadd", a1, a2))


def polysub(a1: Any, a2: Any) -> Any:
    """Subtract polynomials."""
    return subtract(*_aligned("polysub", a1, a2))


def _aligned(name: str, a1: Any, a2: Any) -> Any:
    a1, a2 = promote_dtypes(one(name, a1), one(name, a2))
    size = max(a1.shape[0], a2.shape[0])
    return [pad(x, constant(0, x), [(size - x.shape[0], 0, 0)]) for x in (a1, a2)]


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Any:
    """Multiply polynomials."""
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


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """Divide polynomials; return quotient and remainder."""
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
    return q, _trimmed(u) if trim_leading_zeros else u


def polyder(p: Any, m: int = 1) -> Any:
    """Differentiate a polynomial m times."""
    if m < 0:
        raise ValueError(f"polyder(m={m})\nOrder of derivative must be positive\nuse 0 or more")
    (p,) = promote_dtypes_inexact(one("polyder", p))
    for _ in range(m):
        n = p.shape[0]
        powers = subtract(n - 1, cast(iota(np.dtype(np.int32), n), p.dtype))
        p = slice_in_dim(multiply(p, powers), 0, max(n - 1, 0))
    return p


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """Integrate a polynomial m times, with constants k."""
    if m < 0:
        raise ValueError(f"polyint(m={m})\nOrder of integral must be positive\nuse 0 or more")
    constants = zeros((m,)) if k is None else atleast_1d(asarray(k))
    p, constants = promote_dtypes_inexact(one("polyint", p), constants)
    if constants.shape[0] == 1 and m > 1:
        constants = concatenate([constants] * m)
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
    return p


def poly(seq_of_zeros: Any) -> Any:
    """Return the polynomial with given zeros."""
    (zeros_,) = promote_dtypes_inexact(one("poly", seq_of_zeros))
    zeros_ = atleast_1d(zeros_)
    if len(zeros_.shape) != 1:
        raise NotImplementedError(
            three_lines(
                f"poly of {zeros_.aval} at {current_source()}",
                "only vectors of zeros are supported",
                "pass the eigenvalues of the matrix: linalg.eigvals(x)",
            )
        )
    out = full((1,), 1, zeros_.dtype)
    for i in range(zeros_.shape[0]):
        root = index_in_dim(zeros_, i, 0, keepdims=False)
        longer = pad(out, constant(0, out), [(0, 1, 0)])
        out = subtract(longer, pad(multiply(root, out), constant(0, out), [(1, 0, 0)]))
    return out
