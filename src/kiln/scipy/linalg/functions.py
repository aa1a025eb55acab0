"""Functions of square matrices: the exponential, roots, and any other by Schur forms.

Sources: Higham, "The scaling and squaring method for the matrix exponential revisited" (2005);
Björck and Hammarling, "A Schur method for the square root of a matrix" (1983); Parlett, "A
recurrence among the elements of functions of triangular matrices" (1976).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.api.derivatives.linear import jvp
from kiln.base import dtypes
from kiln.control.branches import cond
from kiln.control.loops.loops import fori_loop, scan
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.linalg import solve
from kiln.numpy.promotion import promote_dtypes_inexact
from kiln.ops.linear import linalg
from kiln.ops.linear.matrices import adjoint, complex_dtype
from kiln.scipy.linalg.factorizations import matrix, refused, schur

# By bits: the degree of the Padé approximant, and the norm up to which it is exact.
_DEGREES = {32: (7, 3.925724783138660), 64: (13, 5.371920351148152)}


def _pade(degree: int) -> list[float]:
    """Return the coefficients of the numerator, scaled to end with 1."""
    whole = [
        math.factorial(2 * degree - k)
        * math.factorial(degree)
        // (math.factorial(degree - k) * math.factorial(k))
        for k in range(degree + 1)
    ]
    return [c / whole[-1] for c in map(float, whole)]


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """Return the exponential of square matrices; nan if more squarings would be needed.

    `upper_triangular` is what is known of the matrices.

    Shapes: (..., n, n) -> (..., n, n).
    Example:
        >>> kiln.scipy.linalg.expm(jnp.array([[0.0, 1.0], [0.0, 0.0]]))
        Array([[1., 1.],
               [0., 1.]], dtype=float32)
    """
    x = matrix("expm", A)
    dtype = x.dtype
    x = x if dtypes.bit_width(dtype) >= 32 else x.astype(np.float32)
    degree, reach = _DEGREES[64 if x.dtype in (np.float64, np.complex128) else 32]
    norm = jnp.max(jnp.sum(jnp.abs(x), axis=-2), axis=-1, initial=0)
    steps = jnp.maximum(0, jnp.ceil(jnp.log2(jnp.where(norm > 0, norm, 1) / reach)))
    known = jnp.isfinite(norm)
    steps = jnp.where(known, steps, 0)
    scaled = x * jnp.exp2(-steps)[..., None, None].astype(x.dtype)
    scaled = jnp.where(known[..., None, None], scaled, 0)
    even, odd = _halves(scaled, degree)
    if upper_triangular:
        value = linalg.triangular_solve(jnp.triu(even - odd), even + odd, left_side=True)
    else:
        value = solve(even - odd, even + odd)

    def square(value: Any, i: Any) -> Any:
        def once(value: Any) -> Any:
            wanted = (i < steps)[..., None, None]
            return jnp.where(wanted, jnp.matmul(value, value), value)

        return cond(jnp.any(i < steps), once, lambda value: value, value), None

    if max_squarings:
        value, _ = scan(square, value, jnp.arange(max_squarings, dtype=steps.dtype))
    fine = known & (steps <= max_squarings)
    return jnp.where(fine[..., None, None], value, math.nan).astype(dtype)


def _halves(x: Any, degree: int) -> tuple[Any, Any]:
    """Return the even and the odd part of the numerator of the Padé approximant."""
    c = _pade(degree)
    one = jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    x2 = jnp.matmul(x, x)
    x4 = jnp.matmul(x2, x2)
    x6 = jnp.matmul(x4, x2)
    if degree == 7:
        odd = c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * one
        return c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * one, jnp.matmul(x, odd)
    high = jnp.matmul(x6, c[13] * x6 + c[11] * x4 + c[9] * x2)
    odd = high + c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * one
    even = jnp.matmul(x6, c[12] * x6 + c[10] * x4 + c[8] * x2)
    even = even + c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * one
    return even, jnp.matmul(x, odd)


def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Any:
    """Return the exponential of `A`, and its derivative in the direction `E`.

    `method`, "SPS" or "blockEnlarge", has no effect: the exponential is differentiated.

    Raises: ValueError for another method, or matrices of other shapes.
    Example:
        >>> a, e = jnp.zeros((2, 2)), jnp.eye(2)
        >>> kiln.scipy.linalg.expm_frechet(a, e, compute_expm=False).round(4)
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    a, e = promote_dtypes_inexact(matrix("expm_frechet", A), matrix("expm_frechet", E))
    if method not in (None, "SPS", "blockEnlarge"):
        raise refused(f"expm_frechet with method={method!r}", "Unknown method", 'use "SPS"')
    if a.shape != e.shape:
        raise refused(
            f"expm_frechet of {a.aval}, {e.aval}",
            "expected A and E to be the same shape",
            "pass matrices of one shape",
        )
    value, slope = jvp(expm, (a,), (e,))
    return (value, slope) if compute_expm else slope


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """Return the complex Schur form, of which a real one has blocks on its diagonal.

    A rotation takes out each entry below the diagonal. Source: Golub and Van Loan, "Matrix
    computations", 7.4.

    Stacks are broadcast.

    Raises: ValueError for matrices of different shapes.
    Example:
        >>> t, z = kiln.scipy.linalg.schur(jnp.array([[0.0, 1.0], [-1.0, 0.0]]))
        >>> t, z = kiln.scipy.linalg.rsf2csf(t, z)
        >>> jnp.abs(t[1, 0]).round(4)
        Array(0., dtype=float32)
    """
    t, z = promote_dtypes_inexact(matrix("rsf2csf", T), matrix("rsf2csf", Z))
    if t.shape[-1] != z.shape[-1]:
        raise refused(
            f"rsf2csf of {t.aval}, {z.aval}",
            f"Input array shapes must match: Z: {tuple(z.shape)} vs. T: {tuple(t.shape)}",
            "pass both results of schur",
        )
    return jnp.vectorize(_complex_form, signature="(n,n),(n,n)->(n,n),(n,n)")(t, z)


def _complex_form(t: Any, z: Any) -> tuple[Any, Any]:
    wide = complex_dtype(t.dtype)
    size = t.shape[-1]
    rows = jnp.arange(size)

    def rotate(i: Any, carry: Any) -> Any:
        t, z = carry
        m = size - 1 - i
        below = t[m, m - 1]
        none = below == 0
        half = 0.5 * (t[m - 1, m - 1] - t[m, m])
        # Where nothing is taken out, roots of zero would make derivatives nan.
        root = jnp.sqrt(jnp.where(none, 1, half * half + t[m - 1, m] * below))
        mu = jnp.where(none, 1, half + root)
        length = jnp.sqrt(jnp.abs(mu) ** 2 + jnp.abs(below) ** 2).astype(wide)
        c, s = mu / length, jnp.where(none, 0, below / length)
        over, under = t[m - 1], t[m]
        t = t.at[m - 1].set(jnp.conj(c) * over + s * under).at[m].set(c * under - s * over)
        over, under = t[:, m - 1], t[:, m]
        t = t.at[:, m - 1].set(c * over + jnp.conj(s) * under)
        t = t.at[:, m].set(jnp.conj(c) * under - jnp.conj(s) * over)
        t = t.at[m, m - 1].set(0)
        over, under = z[:, m - 1], z[:, m]
        z = z.at[:, m - 1].set(c * over + jnp.conj(s) * under)
        return t, z.at[:, m].set(jnp.conj(c) * under - jnp.conj(s) * over)

    t, z = fori_loop(0, max(size - 1, 0), rotate, (t.astype(wide), z.astype(wide)))
    return jnp.where(rows[:, None] <= rows[None, :], t, 0), z


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """Return the principal square root, as complex numbers.

    Raises: NotImplementedError for a `blocksize` other than 1.
    Example:
        >>> kiln.scipy.linalg.sqrtm(jnp.array([[4.0, 0.0], [0.0, 9.0]])).real
        Array([[2., 0.],
               [0., 3.]], dtype=float32)
    """
    if blocksize > 1:
        raise refused(
            f"sqrtm with blocksize={blocksize}",
            "Blocked version is not implemented yet.",
            "leave blocksize out",
            NotImplementedError,
        )
    t, z = schur(matrix("sqrtm", A), "complex")
    size = t.shape[-1]
    rows = jnp.arange(size)
    roots = jnp.sqrt(jnp.diagonal(t, axis1=-2, axis2=-1))
    one = jnp.eye(size, dtype=t.dtype)

    def column(j: Any, u: Any) -> Any:
        # Of the rows above j: (U + u_jj) u_j = t_j. The others are those of the identity.
        above = rows < j
        root = roots[..., j]
        left = jnp.where(above[:, None] & above[None], u + root[..., None, None] * one, one)
        right = jnp.where(above, t[..., j], 0)[..., None]
        # Zeros over zero are zeros; anything else over zero has no root.
        none = above & (jnp.diagonal(left, axis1=-2, axis2=-1) == 0)
        left = jnp.where(none[..., None] & (one == 1), 1, left)
        found = linalg.triangular_solve(left, right, left_side=True)[..., 0]
        found = jnp.where(none & (found != 0), jnp.nan, found)
        return u.at[..., j].set(jnp.where(rows == j, root[..., None], found))

    u = fori_loop(0, size, column, jnp.zeros_like(t))
    return jnp.matmul(jnp.matmul(z, u), adjoint(z))


def funm(A: ArrayLike, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """Return the function of a matrix that `func` is on numbers, as complex numbers.

    Without `disp` also an estimate of the error, in the 1-norm. Eigenvalues near each other make
    it inaccurate.

    Example:
        >>> kiln.scipy.linalg.funm(jnp.array([[1.0, 1.0], [0.0, 2.0]]), jnp.square).real.round(4)
        Array([[1., 3.],
               [0., 4.]], dtype=float32)
    """
    # Of a real matrix, real eigenvalues stay real: beside the negative axis functions have cuts.
    t, z = schur(matrix("funm", A))
    if not jnp.iscomplexobj(t):
        t, z = rsf2csf(t, z)
    size = t.shape[-1]
    values = jnp.diagonal(t)
    start = jnp.diag(func(values)).astype(t.dtype)
    gaps = values[None, :] - values[:, None]
    distance = jnp.arange(size)[None, :] - jnp.arange(size)[:, None]

    def superdiagonal(p: Any, f: Any) -> Any:
        # F commutes with T; where F is not known yet it is 0.
        numerator = jnp.matmul(t, f) - jnp.matmul(f, t)
        return jnp.where(distance == p, numerator / jnp.where(gaps == 0, 1, gaps), f)

    f = fori_loop(1, size, superdiagonal, start)
    out = jnp.matmul(jnp.matmul(z, f), adjoint(z))
    if disp:
        return out
    tolerance = float(dtypes.finfo(t.dtype).eps)
    above = jnp.triu(jnp.abs(t), 1)
    nearest = jnp.min(jnp.where(distance > 0, jnp.abs(gaps), jnp.abs(values[0])))
    nearest = jnp.where(nearest == 0, tolerance, nearest)
    norm = jnp.max(jnp.sum(above, axis=0))
    error = jnp.minimum(1, jnp.maximum(tolerance, tolerance / nearest * norm))
    return out, jnp.where(jnp.all(jnp.isfinite(out)), error, math.inf)
