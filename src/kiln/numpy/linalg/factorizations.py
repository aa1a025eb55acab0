"""Factorizations of stacks of matrices, their powers, and products of several."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, overload

from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.numpy import products
from kiln.numpy.creation import matrices
from kiln.numpy.linalg.equations import hermitian_svd, inv, refused
from kiln.numpy.products import matmul
from kiln.numpy.promotion import inexact, one, operands, promote_dtypes
from kiln.numpy.shapes import index_of
from kiln.ops.linear import linalg, orthogonal, spectral
from kiln.ops.linear.matrices import adjoint, identity, transposed
from kiln.ops.shape import reshape


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns.

    Example:
        >>> jnp.linalg.eig(jnp.array([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
        Array([2.+0.j, 3.+0.j], dtype=complex64)
    """

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Eigenvalues of Hermitian matrices in ascending order, and eigenvectors as columns.

    Example:
        >>> jnp.linalg.eigh(jnp.array([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
        Array([2., 3.], dtype=float32)
    """

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangular matrix.

    Example:
        >>> jnp.linalg.qr(jnp.ones((3, 2))).R.shape
        (2, 2)
    """

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values, right singular vectors as rows.

    Example:
        >>> jnp.linalg.svd(jnp.ones((3, 2))).S.shape
        (2,)
    """

    U: Array
    S: Array
    Vh: Array


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Return the triangular factor of Hermitian positive definite matrices; nan if not definite.

    NumPy raises LinAlgError for a matrix that is not definite, and reads one triangle only.

    a = L L^H for the lower factor L, a = U^H U for the upper one. Without `symmetrize_input` only
    the lower triangle is read, for both.

    Example:
        >>> jnp.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
        Array([[2., 0.],
               [1., 2.]], dtype=float32)
        >>> jnp.linalg.cholesky(jnp.array([[-1.0]]))
        Array([[nan]], dtype=float32)
    """
    a = inexact("cholesky", one("cholesky", a))
    factor = linalg.cholesky(a, symmetrize_input=symmetrize_input)
    return adjoint(factor) if upper else factor


@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    compute_uv: Literal[True] = ...,
    hermitian: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
) -> SVDResult: ...


@overload
def svd(
    a: ArrayLike,
    full_matrices: bool = ...,
    *,
    compute_uv: Literal[False],
    hermitian: bool = ...,
    subset_by_index: tuple[int, int] | None = ...,
) -> Array: ...


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Return the singular value decomposition; only the values, descending, if not `compute_uv`.

    With `hermitian` the matrices are taken for Hermitian; `subset_by_index` selects singular
    values.

    Shapes: (..., m, n) -> (..., m, m), (..., min(m, n)), (..., n, n), or (..., m, min(m, n)) and
    (..., min(m, n), n) without `full_matrices`.
    Example:
        >>> a = jnp.array([[3.0, 0.0], [0.0, 5.0], [0.0, 0.0]])
        >>> u, s, vh = jnp.linalg.svd(a, full_matrices=False)
        >>> u.shape, s
        ((3, 2), Array([5., 3.], dtype=float32))
    """
    a = inexact("svd", one("svd", a))
    if hermitian:
        found = hermitian_svd(a)
        return SVDResult(*found) if compute_uv else found[1]
    out = spectral.svd(
        a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
    )
    return SVDResult(*out) if compute_uv else out


def svdvals(x: ArrayLike, /) -> Array:
    """Return singular values in descending order.

    Example:
        >>> jnp.linalg.svdvals(jnp.array([[3.0, 0.0], [0.0, 5.0]]))
        Array([5., 3.], dtype=float32)
    """
    return svd(x, compute_uv=False)


def eig(a: ArrayLike) -> EigResult:
    """Return complex eigenvalues and eigenvectors of square matrices.

    The result is complex even if all eigenvalues are real, since its dtype cannot depend on values.

    Example:
        >>> jnp.linalg.eig(jnp.array([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
        Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    values, vectors = spectral.eig(inexact("eig", one("eig", a)), compute_left_eigenvectors=False)
    return EigResult(values, vectors)


def eigvals(a: ArrayLike) -> Array:
    """Return complex eigenvalues of square matrices.

    Example:
        >>> jnp.linalg.eigvals(jnp.array([[2.0, 1.0], [0.0, 3.0]]))
        Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    return spectral.eig(
        inexact("eigvals", one("eigvals", a)),
        compute_left_eigenvectors=False,
        compute_right_eigenvectors=False,
    )[0]


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Return eigenvalues and eigenvectors of Hermitian matrices.

    Without `symmetrize_input` only the triangle that UPLO names ("L" or "U") is read.

    Example:
        >>> values, vectors = jnp.linalg.eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
        >>> values.round(4), jnp.abs(vectors).round(4)
        (Array([1., 3.], dtype=float32), Array([[0.7071, 0.7071],
               [0.7071, 0.7071]], dtype=float32))
    """
    if UPLO not in (None, "L", "U"):
        raise ValueError(
            three_lines(
                f"eigh with UPLO={UPLO!r} at {current_source()}",
                f"UPLO must be one of None, 'L', or 'U', got {UPLO}",
                "leave UPLO out",
            )
        )
    vectors, values = spectral.eigh(
        inexact("eigh", one("eigh", a)), lower=UPLO != "U", symmetrize_input=symmetrize_input
    )
    return EighResult(values, vectors)


def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Return eigenvalues of Hermitian matrices in ascending order.

    Without `symmetrize_input` only the triangle that `UPLO` names ("L" or "U") is read.

    Example:
        >>> jnp.linalg.eigvalsh(jnp.array([[2.0, 1.0], [1.0, 2.0]])).round(4)
        Array([1., 3.], dtype=float32)
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Return the QR factors: "reduced" or "complete", only R with "r", LAPACK's form with "raw".

    Raises: ValueError for another mode.
    Example:
        >>> q, r = jnp.linalg.qr(jnp.array([[3.0, 1.0], [4.0, 2.0]]))
        >>> jnp.abs(r).round(4), (q @ r).round(4)
        (Array([[5. , 2.2],
               [0. , 0.4]], dtype=float32), Array([[3., 1.],
               [4., 2.]], dtype=float32))
    """
    a = inexact("qr", one("qr", a))
    if mode == "raw":
        reduced, taus = orthogonal.geqrf(a)
        return QRResult(transposed(reduced), taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise refused(
            "qr",
            (a,),
            f"Unsupported QR decomposition mode '{mode}'",
            'use "reduced", "complete", "r" or "raw"',
        )
    q, r = orthogonal.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def matrix_power(a: ArrayLike, n: int) -> Array:
    """Raise square matrices to the n-th power; negative powers invert them.

    Raises: TypeError for matrices that are not square, or a power that is not an integer.
    Example:
        >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [1, 0]]), 10)
        Array([[89, 55],
               [55, 34]], dtype=int32)
    """
    a = one("matrix_power", a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        wrong = (
            "Last 2 dimensions of the array must be square"
            if a.ndim >= 2
            else f"{a.ndim}-dimensional array given. Array must be at least two-dimensional"
        )
        raise refused("matrix_power", (a,), wrong, "pass a square matrix", TypeError)
    try:
        n = index_of("matrix_power", n)
    except TypeError:
        wrong = f"exponent must be an integer, got {n}"
        raise refused("matrix_power", (a,), wrong, "pass an int", TypeError) from None
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return identity(a)
    out: Any = None
    while n:
        if n % 2:
            out = a if out is None else matmul(out, a)
        n //= 2
        if n:
            a = matmul(a, a)
    return out


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Array:
    """Multiply two or more matrices in the cheapest order; the first and last may be vectors.

    `precision` has no effect on CPUs.

    Raises: ValueError for incompatible shapes.
    Example:
        >>> jnp.linalg.multi_dot([jnp.ones((2, 50)), jnp.ones((50, 3)), jnp.ones(3)])
        Array([150., 150.], dtype=float32)
    """
    xs = [one("multi_dot", x) for x in arrays]
    if len(xs) < 2:
        raise ValueError(
            three_lines(
                f"multi_dot of {len(xs)} arrays at {current_source()}",
                f"multi_dot requires at least two arrays; got len(arrays)={len(xs)}",
                "pass two arrays or more",
            )
        )
    shapes = [tuple(x.shape) for x in xs]
    ends = all(len(s) in (1, 2) for s in (shapes[0], shapes[-1]))
    if not ends or any(len(s) != 2 for s in shapes[1:-1]):
        wrong = (
            "multi_dot: input arrays must all be two-dimensional, except for the first and last "
            f"array which may be 1 or 2 dimensional. Got array shapes {shapes}"
        )
        raise refused("multi_dot", xs, wrong, "use matmul for stacks")
    if any(x[-1] != y[0] for x, y in itertools.pairwise(shapes)):
        wrong = (
            "multi_dot: last dimension of each array must match first dimension of following "
            f"array. Got array shapes {shapes}"
        )
        raise refused("multi_dot", xs, wrong, "transpose some of the arrays")
    xs = list(promote_dtypes(*xs))
    first, last = xs[0], xs[-1]
    if first.ndim == 1:
        xs[0] = reshape(first, (1, *first.shape))
    if last.ndim == 1:
        xs[-1] = reshape(last, (*last.shape, 1))
    out = _product(xs, _cheapest([x.shape for x in xs]), 0, len(xs) - 1, precision)
    shape = out.shape
    shape = shape[1:] if first.ndim == 1 else shape
    return reshape(out, shape[:-1] if last.ndim == 1 else shape)


def _cheapest(shapes: Sequence[Any]) -> dict[tuple[int, int], int]:
    """Return where to split each run of matrices: (first, last) -> last of the left part."""
    sizes = [shapes[0][0], *[s[1] for s in shapes]]
    count = len(shapes)
    cost: dict[tuple[int, int], float] = {(i, i): 0.0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j] = math.inf
            for k in range(i, j):
                here = cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                if here < cost[i, j]:
                    cost[i, j], split[i, j] = here, k
    return split


def _product(xs: Sequence[Any], split: Any, first: int, last: int, precision: Any) -> Any:
    if first == last:
        return xs[first]
    middle = split[first, last]
    left = _product(xs, split, first, middle, precision)
    right = _product(xs, split, middle + 1, last, precision)
    return matmul(left, right, precision=precision)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """Exchange the last two axes.

    Example:
        >>> jnp.linalg.matrix_transpose(jnp.array([[1, 2], [3, 4]]))
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    return matrices.matrix_transpose(x)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Return a diagonal of the matrices in the last two axes.

    `offset` counts diagonals: 0 is the main one, positive numbers are above it.

    Example:
        >>> jnp.linalg.diagonal(jnp.array([[1, 2], [3, 4]]))
        Array([1, 4], dtype=int32)
    """
    return matrices.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Sum a diagonal of the matrices in the last two axes.

    `offset` counts diagonals: 0 is the main one, positive numbers are above it.

    Example:
        >>> jnp.linalg.trace(jnp.arange(8).reshape(2, 2, 2))
        Array([ 3, 11], dtype=int32)
    """
    return matrices.trace(x, offset, -2, -1, dtype)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Return the cross product of vectors with three components.

    Raises: ValueError for vectors of other sizes.
    Example:
        >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
        Array([0, 0, 1], dtype=int32)
    """
    x1, x2 = (one("cross", x) for x in operands("cross", x1, x2))
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        wrong = (
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they have "
            f"x1.shape[axis]={x1.shape[axis]} and x2.shape[axis]={x2.shape[axis]}"
        )
        raise refused("cross", (x1, x2), wrong, "use kiln.numpy.cross for two components")
    return products.cross(x1, x2, axis=axis)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the outer product of two vectors.

    Raises: ValueError for arrays with more axes.
    Example:
        >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4]))
        Array([[3, 4],
               [6, 8]], dtype=int32)
    """
    x1, x2 = (one("outer", x) for x in operands("outer", x1, x2))
    if x1.ndim != 1 or x2.ndim != 1:
        wrong = (
            f"Input arrays must be one-dimensional, but they are x1.ndim={x1.ndim} "
            f"x2.ndim={x2.ndim}"
        )
        raise refused("outer", (x1, x2), wrong, "use kiln.numpy.outer, which flattens")
    return products.outer(x1, x2)
