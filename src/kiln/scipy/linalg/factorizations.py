"""Factorizations of matrices in the last two axes, with SciPy's conventions.

`overwrite_a`, `check_finite`, `lwork` and `turbo` are accepted and have no effect.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import scipy_linalg
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.ir.types import ShapedArray
from kiln.lax.condensed import by_lapack, reduced
from kiln.numpy.linalg import svd as _svd
from kiln.numpy.promotion import inexact, lifted, of_own_ranks
from kiln.ops.linear import linalg, orthogonal, spectral
from kiln.ops.linear.matrices import adjoint, complex_dtype

POLAR_METHODS = ("qdwh", "svd")


def matrix(name: str, a: Any, square: bool = True) -> Any:
    """Return an operand as a stack of inexact matrices.

    Raises: ValueError for fewer than two axes, or matrices that are not square.
    """
    x = lifted(inexact(name, jnp.asarray(a)))
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise refused(
            f"{name} of {x.aval}",
            f"expected a {'square matrix' if square else 'matrix'} in the last two axes, got "
            f"shape {tuple(x.shape)}",
            "pass an array of shape (n, n)" if square else "pass an array of shape (m, n)",
        )
    return x


def refused(asked: str, wrong: str, remedy: str, kind: type[Exception] = ValueError) -> Exception:
    """Build the error for what a function does not accept.

    `asked` was requested, `wrong` is what is not accepted, `remedy` what to write instead; `kind`
    is the class.
    """
    return kind(three_lines(f"{asked} at {current_source()}", wrong, remedy))


def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """Return the upper factor U with a = Uᴴ U, or the lower one L with a = L Lᴴ.

    The upper factor by default, unlike `jnp.linalg.cholesky`.

    Only that triangle of `a` is read. Matrices that are not positive definite give nan.

    Example:
        >>> kiln.scipy.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
        Array([[2., 1.],
               [0., 2.]], dtype=float32)
    """
    x = matrix("cholesky", a)
    if lower:
        return linalg.cholesky(x, symmetrize_input=False)
    return adjoint(linalg.cholesky(adjoint(x), symmetrize_input=False))


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """Return what `cho_solve` takes: the Cholesky factor, and which one it is.

    Shapes: `a` (..., n, n), Hermitian -> (..., n, n), lower or upper triangular as `lower` says.
        `overwrite_a` and `check_finite` have no effect.
    Example:
        >>> a, b = jnp.array([[4.0, 2.0], [2.0, 5.0]]), jnp.array([2.0, 5.0])
        >>> kiln.scipy.linalg.cho_solve(kiln.scipy.linalg.cho_factor(a), b).round(4)
        Array([0., 1.], dtype=float32)
    """
    return cholesky(a, lower), lower


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """Return what `lu_solve` takes: L and U in one matrix, and the rows that were exchanged.

    Shapes: (..., m, n) -> (..., m, n), (..., min(m, n)).
    Example:
        >>> a, b = jnp.array([[1.0, 2.0], [4.0, 4.0]]), jnp.array([3.0, 8.0])
        >>> kiln.scipy.linalg.lu_solve(kiln.scipy.linalg.lu_factor(a), b)
        Array([1., 1.], dtype=float32)
    """
    factors, pivots, _ = linalg.lu(matrix("lu_factor", a, False))
    return factors, pivots


@of_own_ranks
def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """Return P, L and U with a = P L U; with `permute_l`, the product P L, and U.

    Shapes: (..., m, n) -> (..., m, m), (..., m, k), (..., k, n) for k = min(m, n).
    Example:
        >>> p, l, u = kiln.scipy.linalg.lu(jnp.array([[1.0, 2.0], [4.0, 4.0]]))
        >>> u
        Array([[4., 4.],
               [0., 1.]], dtype=float32)
    """
    x = matrix("lu", a, False)
    factors, _, order = linalg.lu(x)
    rows, columns = x.shape[-2:]
    count = min(rows, columns)
    lower = jnp.tril(factors[..., :count], -1) + jnp.eye(rows, count, dtype=x.dtype)
    upper = jnp.triu(factors[..., :count, :])
    # Row i of the product L U is row order[i] of a.
    exchange = (jnp.arange(rows)[:, None] == order[..., None, :]).astype(x.dtype)
    if permute_l:
        return jnp.matmul(exchange, lower), upper
    return exchange, lower, upper


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """Return Q and R with a = Q R; with `pivoting` also the order of the columns of `a`.

    `mode` is "full", "economic", or "r" for R alone.

    Raises: ValueError for another mode.
    Example:
        >>> q, r = kiln.scipy.linalg.qr(jnp.ones((3, 2)), mode="economic")
        >>> q.shape, r.shape
        ((3, 2), (2, 2))
    """
    if mode not in ("full", "economic", "r"):
        raise refused(
            f"qr with mode={mode!r}",
            f"Unsupported QR decomposition mode '{mode}'",
            'use "full", "economic" or "r"',
        )
    x = matrix("qr", a, False)
    found = orthogonal.qr(x, pivoting=pivoting, full_matrices=mode != "economic")
    return found[1:] if mode == "r" else found


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """Return c Q, or Q c with `mode` "left", and R, for a = Q R without superfluous columns.

    With `pivoting` also the order of the columns of `a`; with `conjugate` the conjugate of Q.

    Raises: ValueError for another mode, or incompatible shapes.
    Example:
        >>> a, c = jnp.array([[3.0, 1.0], [4.0, 2.0]]), jnp.ones((1, 2))
        >>> kiln.scipy.linalg.qr_multiply(a, c)[0].shape
        (1, 2)
    """
    if mode not in ("left", "right"):
        raise refused(
            f"qr_multiply with mode={mode!r}",
            f"Invalid mode: {mode}, must be one of ['left', 'right']",
            'use "left" or "right"',
        )
    x = matrix("qr_multiply", a, False)
    factor = lifted(inexact("qr_multiply", jnp.asarray(c)))
    q, *rest = orthogonal.qr(x, pivoting=pivoting, full_matrices=False)
    vector = factor.ndim == 1
    if vector:
        factor = factor[:, None] if mode == "left" else factor[None, :]
    if conjugate:
        q = jnp.conj(q)
    inner = (q.shape[-1], factor.shape[-2]) if mode == "left" else (factor.shape[-1], q.shape[-2])
    if inner[0] != inner[1]:
        raise refused(
            f"qr_multiply of {x.aval}, {factor.aval} with mode={mode!r}",
            "Array shapes are not compatible for the product with Q, whose shape is "
            f"{tuple(q.shape)}",
            "c needs as many rows as Q has columns, or with mode='right' as many columns as rows",
        )
    product = jnp.matmul(q, factor) if mode == "left" else jnp.matmul(factor, q)
    if vector:
        product = product[..., 0] if mode == "left" else product[..., 0, :]
    return (product, *rest)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Return U, the singular values in descending order, and Vᴴ; or the values alone.

    `lapack_driver` has no effect.

    Example:
        >>> kiln.scipy.linalg.svd(jnp.array([[3.0, 0.0], [0.0, 5.0]]), compute_uv=False)
        Array([5., 3.], dtype=float32)
    """
    x = matrix("svd", a, False)
    if not compute_uv:
        return _svd(x, full_matrices, compute_uv=False)
    return tuple(_svd(x, full_matrices))


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Return ascending eigenvalues and eigenvectors of Hermitian matrices.

    Matrices that are not Hermitian are replaced by the mean with their conjugate transposes.

    Raises: NotImplementedError for generalized problems (`b`, `type`) and for `eigvals`.
    Example:
        >>> kiln.scipy.linalg.eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]]), eigvals_only=True).round(4)
        Array([1., 3.], dtype=float32)
    """
    for name, value, only in (("b", b, None), ("type", type, 1), ("eigvals", eigvals, None)):
        if value is not only and (hasattr(value, "shape") or value != only):
            raise refused(
                f"eigh with {name}",
                f"Only the {name}={only} case of eigh is implemented.",
                "factor b = L Lᴴ, and pass L⁻¹ a L⁻ᴴ" if name == "b" else f"leave out {name}",
                NotImplementedError,
            )
    x = matrix("eigh", a)
    vectors, values = spectral.eigh(x, lower=lower)
    return values if eigvals_only else (values, vectors)


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
    """Return eigenvalues and eigenvectors of the matrix with diagonals `d` and `e`.

    `e` is above the diagonal, and its conjugate below.

    `select` is "a" for all, or "i" for those from index select_range[0] to select_range[1]. `tol`
    and `key` have no effect: the matrix is diagonalized whole.

    Raises: NotImplementedError for `select` "v", ValueError for another, or wrong shapes.
    Example:
        >>> d, e = jnp.array([2.0, 2.0]), jnp.array([1.0])
        >>> kiln.scipy.linalg.eigh_tridiagonal(d, e, eigvals_only=True).round(4)
        Array([1., 3.], dtype=float32)
    """
    diagonal, beside = (lifted(inexact("eigh_tridiagonal", jnp.asarray(v))) for v in (d, e))
    asked = f"eigh_tridiagonal of {diagonal.aval}, {beside.aval} with select={select!r}"
    if select == "v":
        raise refused(
            asked,
            "eigh_tridiagonal(..., select='v') is not implemented",
            "select from all of them",
            NotImplementedError,
        )
    if select not in ("a", "i"):
        raise refused(asked, f"Unknown value for select: {select!r}", 'use "a" or "i"')
    if select == "i" and select_range is None:
        raise refused(asked, "for select='i', select_range must be specified", "pass (0, 2)")
    count = diagonal.shape[-1]
    if diagonal.ndim != 1 or beside.shape != (count - 1,):
        raise refused(asked, "the diagonals must be vectors of n and n - 1 numbers", "pass those")
    low = jnp.diag(jnp.conj(beside), -1)
    whole = jnp.diag(diagonal).astype(low.dtype) + low + adjoint(low)
    vectors, values = spectral.eigh(whole, symmetrize_input=False)
    if select == "i" and select_range is not None:
        first, last = int(select_range[0]), int(select_range[1])
        values, vectors = values[first : last + 1], vectors[:, first : last + 1]
    return values if eigvals_only else (values, vectors)


def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """Return T and Z with a = Z T Zᴴ, computed by LAPACK on the host.

    T is upper triangular; of real matrices with `output` "real", up to 2 by 2 blocks on its
    diagonal.

    Raises: ValueError for another output.
    Example:
        >>> t, z = kiln.scipy.linalg.schur(jnp.array([[2.0, 1.0], [0.0, 3.0]]))
        >>> jnp.diagonal(t)
        Array([2., 3.], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise refused(
            f"schur with output={output!r}",
            f"Expected 'output' to be either 'real' or 'complex', got output={output!r}.",
            'use "real" or "complex"',
        )
    x = matrix("schur", a)
    wide = _computed(x)
    if output == "complex":
        wide = wide.astype(complex_dtype(wide.dtype))
    kind = "complex" if jnp.iscomplexobj(wide) else "real"
    shape = ShapedArray(wide.shape, wide.dtype)
    t, z = by_lapack(lambda m: scipy_linalg.schur(m, output=kind), wide, [shape, shape])
    return t, z


def _computed(x: Any) -> Any:
    """Convert 16-bit floats to 32 bits, which LAPACK computes in."""
    return x if dtypes.bit_width(x.dtype) >= 32 else x.astype(np.float32)


def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Return H, zero below its first subdiagonal, and with `calc_q` also Q with a = Q H Qᴴ.

    Shapes: (..., n, n). `overwrite_a` and `check_finite` have no effect.
    Raises: ValueError for matrices that are not square.
    Example:
        >>> kiln.scipy.linalg.hessenberg(jnp.arange(9.0).reshape(3, 3))[2, 0].round(4)
        Array(0., dtype=float32)
    """
    h, _, _, q = reduced(matrix("hessenberg", a), with_q=calc_q)
    return (h, q) if calc_q else h


def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """Return U with orthonormal columns and a Hermitian P: a = U P, or P U with `side` "left".

    Computed from singular values for either `method`; `eps` and `max_iterations` have no effect.

    Raises: ValueError for another side or method.
    Example:
        >>> u, p = kiln.scipy.linalg.polar(jnp.array([[0.0, -2.0], [3.0, 0.0]]))
        >>> jnp.abs(p).round(4)
        Array([[3., 0.],
               [0., 2.]], dtype=float32)
    """
    if side not in ("left", "right") or method not in POLAR_METHODS:
        wrong = (
            f"Unknown polar decomposition method {method}."
            if method not in POLAR_METHODS
            else f"side={side!r} must be 'right' or 'left'"
        )
        raise refused(f"polar with side={side!r}, method={method!r}", wrong, 'use side="right"')
    x = matrix("polar", a, False)
    u, s, v = _svd(x, full_matrices=False)
    unitary = jnp.matmul(u, v)
    half = adjoint(v) if side == "right" else u
    return unitary, jnp.matmul(half * s[..., None, :].astype(x.dtype), adjoint(half))
