"""Matrices with a structure: circulant, Toeplitz, Hilbert, Pascal and others.

Entries that are integers are computed as such. Vectors may have leading axes: one matrix each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.numpy.promotion import inexact, lifted, promote_dtypes
from kiln.scipy.linalg.factorizations import refused


def block_diag(*arrs: ArrayLike) -> Array:
    """Return the matrix with these matrices, rows or numbers along its diagonal.

    Raises: ValueError for an array with more than two axes.
    Example:
        >>> kiln.scipy.linalg.block_diag(jnp.array([[1, 2]]), 3)
        Array([[1, 2, 0],
               [0, 0, 3]], dtype=int32)
    """
    if not arrs:
        return jnp.zeros((1, 0), dtypes.default_float_dtype())
    blocks = promote_dtypes(*(jnp.asarray(x) for x in arrs))
    for i, x in enumerate(blocks):
        if x.ndim > 2:
            raise refused(
                f"block_diag: argument {i} is {x.aval}",
                "Arguments to block_diag must have at most 2 dimensions, got "
                f"{x.aval} at argument {i}.",
                "pass matrices",
            )
    blocks = [jnp.atleast_2d(x) for x in blocks]
    width = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        rows.append(jnp.pad(x, ((0, 0), (before, width - before - x.shape[1]))))
        before += x.shape[1]
    return jnp.concatenate(rows)


def _vector(name: str, x: Any, least: int = 0) -> Any:
    found = jnp.atleast_1d(jnp.asarray(x))
    if found.shape[-1] < least:
        raise refused(
            f"{name} of {found.aval}",
            f"The length of `a` along the last axis must be at least {least}.",
            "pass a longer one",
        )
    return found


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return the matrix with first column `c` and first row `r`, and constant diagonals.

    The first of `r` is not used; `r` is the conjugate of `c` if left out.

    Shapes: (..., m), (..., n) -> (..., m, n).
    Example:
        >>> kiln.scipy.linalg.toeplitz(jnp.array([1, 2]), jnp.array([9, 3, 4]))
        Array([[1, 3, 4],
               [2, 1, 3]], dtype=int32)
    """
    column = _vector("toeplitz", c)
    row = jnp.conj(column) if r is None else _vector("toeplitz", r)
    column, row = promote_dtypes(column, row)
    both = jnp.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    m, n = column.shape[-1], row.shape[-1]
    if 0 in (m, n):
        return jnp.zeros((*both, m, n), column.dtype)
    column, row = (jnp.broadcast_to(x, (*both, x.shape[-1])) for x in (column, row))
    line = jnp.concatenate([jnp.flip(column, -1), row[..., 1:]], axis=-1)
    return line[..., m - 1 + np.arange(n) - np.arange(m)[:, None]]


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return the matrix with first column `c`, last row `r`, and constant anti-diagonals.

    The first of `r` is not used; `r` is 0 if left out.

    Shapes: (..., m), (..., n) -> (..., m, n).
    Example:
        >>> kiln.scipy.linalg.hankel(jnp.array([1, 2]), jnp.array([9, 3, 4]))
        Array([[1, 2, 3],
               [2, 3, 4]], dtype=int32)
    """
    column = _vector("hankel", c)
    row = jnp.zeros_like(column) if r is None else _vector("hankel", r)
    column, row = promote_dtypes(column, row)
    both = jnp.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    m, n = column.shape[-1], row.shape[-1]
    if 0 in (m, n):
        return jnp.zeros((*both, m, n), column.dtype)
    column, row = (jnp.broadcast_to(x, (*both, x.shape[-1])) for x in (column, row))
    line = jnp.concatenate([column, row[..., 1:]], axis=-1)
    return line[..., np.arange(n) + np.arange(m)[:, None]]


def circulant(c: ArrayLike) -> Array:
    """Return the matrix whose columns are `c`, each moved down by one more, around the end.

    Shapes: (..., n) -> (..., n, n).
    Example:
        >>> kiln.scipy.linalg.circulant(jnp.array([1, 2, 3]))
        Array([[1, 3, 2],
               [2, 1, 3],
               [3, 2, 1]], dtype=int32)
    """
    column = _vector("circulant", c)
    n = column.shape[-1]
    if n == 0:
        return jnp.zeros((*column.shape, 0), column.dtype)
    return column[..., (np.arange(n)[:, None] - np.arange(n)) % n]


def companion(a: ArrayLike) -> Array:
    """Return the companion matrix of a polynomial, the highest coefficient first.

    Shapes: (..., n) -> (..., n - 1, n - 1).
    Raises: ValueError for fewer than two coefficients.
    Example:
        >>> kiln.scipy.linalg.companion(jnp.array([1.0, -3.0, 2.0]))
        Array([[ 3., -2.],
               [ 1.,  0.]], dtype=float32)
    """
    x = _vector("companion", lifted(inexact("companion", jnp.asarray(a))), 2)
    n = x.shape[-1] - 1
    below = jnp.broadcast_to(jnp.eye(n - 1, n, dtype=x.dtype), (*x.shape[:-1], n - 1, n))
    top = -x[..., 1:] / x[..., :1]
    return jnp.concatenate([top[..., None, :], below], axis=-2)


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """Return the matrix whose product with a vector of `n` numbers is its convolution with `a`.

    Shapes: (..., m) -> (..., k, n), with k by `mode`: m + n - 1 for "full", max(m, n) for "same",
    max(m, n) - min(m, n) + 1 for "valid".
    Raises: ValueError for another mode, or n < 1.
    Example:
        >>> kiln.scipy.linalg.convolution_matrix(jnp.array([1, 2]), 2)
        Array([[1, 0],
               [2, 1],
               [0, 2]], dtype=int32)
    """
    x = _vector("convolution_matrix", a, 1)
    if mode not in ("full", "valid", "same") or n <= 0:
        wrong = (
            "n must be a positive integer."
            if n <= 0
            else f"mode must be one of 'full', 'valid', 'same'; got {mode!r}."
        )
        raise refused(f"convolution_matrix with n={n}, mode={mode!r}", wrong, 'use mode="full"')
    m = x.shape[-1]
    zeros = jnp.zeros((*x.shape[:-1], n - 1), x.dtype)
    column = jnp.concatenate([x, zeros], axis=-1)
    row = jnp.concatenate([x[..., :1], zeros], axis=-1)
    full = toeplitz(column, row)
    if mode == "full":
        return full
    small, large = min(m, n), max(m, n)
    start, count = (small - 1, large - small + 1) if mode == "valid" else ((small - 1) // 2, large)
    return full[..., start : start + count, :]


def fiedler(a: ArrayLike) -> Array:
    """Return the matrix of the distances |a_i - a_j|.

    Shapes: (..., n) -> (..., n, n).
    Example:
        >>> kiln.scipy.linalg.fiedler(jnp.array([1, 4]))
        Array([[0, 3],
               [3, 0]], dtype=int32)
    """
    x = _vector("fiedler", a)
    return jnp.abs(x[..., :, None] - x[..., None, :])


def fiedler_companion(a: ArrayLike) -> Array:
    """Return Fiedler's pentadiagonal companion matrix of a polynomial, the highest first.

    Source: Fiedler, "A note on companion matrices" (2003).

    Shapes: (..., n) -> (..., n - 1, n - 1).
    Raises: ValueError for fewer than two coefficients.
    Example:
        >>> companion = kiln.scipy.linalg.fiedler_companion(jnp.array([1.0, -3.0, 2.0]))
        >>> jnp.linalg.det(companion).round(4)
        Array(2., dtype=float32)
    """
    x = _vector("fiedler_companion", lifted(inexact("fiedler_companion", jnp.asarray(a))), 2)
    x = x / x[..., :1]
    n = x.shape[-1] - 1
    out = jnp.zeros((*x.shape[:-1], n, n), x.dtype).at[..., 0, 0].set(-x[..., 1])
    if n == 1:
        return out
    over = np.arange(0, n - 1, 2)
    out = out.at[..., over, over + 1].set(-x[..., 2::2])
    far = np.arange(0, n - 2, 2)
    out = out.at[..., far, far + 2].set(1)
    under = np.arange(2, n, 2)
    out = out.at[..., under, under - 1].set(-x[..., 3::2])
    far = np.arange(3, n, 2)
    out = out.at[..., far, far - 2].set(1)
    return out.at[..., 1, 0].set(1)


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Return the matrix with first row `f` and first subdiagonal `s`.

    Shapes: (..., n), (..., n - 1) -> (..., n, n).
    Raises: ValueError for other shapes.
    Example:
        >>> kiln.scipy.linalg.leslie(jnp.array([0.1, 2.0]), jnp.array([0.5]))
        Array([[0.1, 2. ],
               [0.5, 0. ]], dtype=float32)
    """
    row, below = promote_dtypes(_vector("leslie", f), jnp.atleast_1d(jnp.asarray(s)))
    n = row.shape[-1]
    if below.shape[-1] != n - 1:
        raise refused(
            f"leslie of {row.aval}, {below.aval}",
            f"the length of s, {below.shape[-1]}, must be one less than that of f, {n}",
            "pass n and n - 1 numbers",
        )
    both = jnp.broadcast_shapes(row.shape[:-1], below.shape[:-1])
    out = jnp.zeros((*both, n, n), row.dtype).at[..., 0, :].set(row)
    return out.at[..., np.arange(1, n), np.arange(n - 1)].set(below)


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return the matrix of the discrete Fourier transform, divided by n or by its root.

    Raises: ValueError for another scale than None, "n" and "sqrtn".
    Example:
        >>> kiln.scipy.linalg.dft(2).real
        Array([[ 1.,  1.],
               [ 1., -1.]], dtype=float32)
    """
    if scale not in (None, "n", "sqrtn"):
        raise refused(
            f"dft with scale={scale!r}",
            f"scale must be None, 'sqrtn', or 'n'; got {scale!r}.",
            "leave scale out",
        )
    turns = np.outer(np.arange(n), np.arange(n)) % max(n, 1)
    found = np.exp(-2j * np.pi / max(n, 1) * turns)
    found = found / {None: 1, "n": n, "sqrtn": math.sqrt(n)}[scale]
    return jnp.asarray(found, dtype=dtypes.canonicalize_dtype(dtype or np.complex128))


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Return Sylvester's Hadamard matrix, of 1 and -1.

    Raises: ValueError if `n` is not a power of 2.
    Example:
        >>> kiln.scipy.linalg.hadamard(2)
        Array([[ 1,  1],
               [ 1, -1]], dtype=int32)
    """
    if n < 1 or n & (n - 1):
        raise refused(
            f"hadamard({n})", f"n must be a positive power of 2; got {n}.", "pass 2, 4, 8 ..."
        )
    common = np.arange(n)[:, None] & np.arange(n)
    bits = np.zeros_like(common)
    while common.any():
        bits ^= common & 1
        common >>= 1
    return jnp.asarray(1 - 2 * bits).astype(dtypes.canonicalize_dtype(dtype))


def helmert(n: int, full: bool = False) -> Array:
    """Return Helmert's orthogonal matrix, without its first row of equal numbers unless `full`.

    Raises: ValueError for n < 1.
    Example:
        >>> kiln.scipy.linalg.helmert(3).round(4)
        Array([[ 0.7071, -0.7071,  0.    ],
               [ 0.4082,  0.4082, -0.8165]], dtype=float32)
    """
    if n < 1:
        raise refused(f"helmert({n})", f"n must be a positive integer; got {n}.", "pass n=3")
    out = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    steps = np.arange(n) * np.arange(1, n + 1)
    out[0], steps[0] = 1, n
    out = out / np.sqrt(steps)[:, None]
    return _floats(out if full else out[1:])


def _floats(x: Any) -> Array:
    return jnp.asarray(np.asarray(x, dtypes.default_float_dtype()))


def hilbert(n: int) -> Array:
    """Return the matrix of 1 / (i + j + 1).

    Shapes: (`n`, `n`).
    Example:
        >>> kiln.scipy.linalg.hilbert(2)
        Array([[1.        , 0.5       ],
               [0.5       , 0.33333334]], dtype=float32)
    """
    return _floats(1 / (np.arange(n)[:, None] + np.arange(n) + 1.0))


def invhilbert(n: int) -> Array:
    """Return the inverse of `hilbert(n)`, of integers that are exact before they are rounded.

    Example:
        >>> kiln.scipy.linalg.invhilbert(2)
        Array([[ 4., -6.],
               [-6., 12.]], dtype=float32)
    """
    out = np.empty((n, n), object)
    for i in range(n):
        for j in range(n):
            first = (-1) ** (i + j) * (i + j + 1) * math.comb(n + i, n - j - 1)
            out[i, j] = first * math.comb(n + j, n - i - 1) * math.comb(i + j, i) ** 2
    return _floats(out.astype(float))


PASCAL_KINDS = ("symmetric", "lower", "upper")


def _kind(name: str, kind: str | None) -> str:
    found = "symmetric" if kind is None else kind
    if found not in PASCAL_KINDS:
        raise refused(
            f"{name} with kind={kind!r}",
            f"Expected kind to be one of: {list(PASCAL_KINDS)}; got {kind}",
            'use "lower"',
        )
    return found


def pascal(n: int, kind: str | None = None) -> Array:
    """Return Pascal's matrix of binomial numbers, symmetric or a triangle by `kind`.

    Raises: ValueError for another kind than None, "symmetric", "lower" and "upper".
    Example:
        >>> kiln.scipy.linalg.pascal(3)
        Array([[1., 1., 1.],
               [1., 2., 3.],
               [1., 3., 6.]], dtype=float32)
    """
    kind = _kind("pascal", kind)
    numbers = range(n)
    if kind == "symmetric":
        out = [[float(math.comb(i + j, i)) for j in numbers] for i in numbers]
    else:
        out = [[float(math.comb(i, j)) for j in numbers] for i in numbers]
    found = np.array(out).reshape((n, n))
    return _floats(found.T if kind == "upper" else found)


def invpascal(n: int, kind: str | None = None) -> Array:
    """Return the inverse of `pascal(n, kind)`.

    Raises: ValueError for another kind than None, "symmetric", "lower" and "upper".
    Example:
        >>> kiln.scipy.linalg.invpascal(2)
        Array([[ 2., -1.],
               [-1.,  1.]], dtype=float32)
    """
    kind = _kind("invpascal", kind)
    lower = [[(-1) ** (i - j) * math.comb(i, j) for j in range(n)] for i in range(n)]
    whole = np.array(lower, object).reshape((n, n))
    if kind == "symmetric":
        whole = whole.T @ whole
    return _floats((whole.T if kind == "upper" else whole).astype(float))
