"""Linear algebra with scipy's names: factors to solve by again and again, matrix functions.

`overwrite_...` and `check_finite` are accepted and mean nothing: arrays are never overwritten.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.loops import fori_loop
from kiln.core.trace import aval_of
from kiln.ir.sizes import minimum
from kiln.numpy import linalg
from kiln.numpy.arithmetic import add, divide, maximum, multiply, subtract
from kiln.numpy.creation import cast, zeros
from kiln.numpy.elementary import ceil, log2
from kiln.numpy.equations import refused
from kiln.numpy.indexing import take
from kiln.numpy.logic import choose_by
from kiln.numpy.manipulation import atleast_2d, flip, one
from kiln.numpy.products import matmul
from kiln.numpy.promotion import inexact, operands, promote_dtypes, promote_dtypes_inexact
from kiln.numpy.reductions import max as max_
from kiln.numpy.reductions import sum as sum_
from kiln.ops import linalg as factors
from kiln.ops import orthogonal, spectral
from kiln.ops.contraction import Precision
from kiln.ops.elementwise import abs, eq, exp2, gt
from kiln.ops.families import constant
from kiln.ops.matrices import adjoint, conjugated, identity
from kiln.ops.matrices import lower as below
from kiln.ops.matrices import upper as above
from kiln.ops.shape import broadcast_in_dim, broadcasted_iota, expand_dims, squeeze
from kiln.ops.static_slicing import concatenate, pad, slice_in_dim

_INT = np.dtype(np.int32)
_TRANS = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}
_ASSUMED = ("gen", "sym", "her", "pos")


def _matrix(name: str, a: Any) -> Any:
    return inexact(name, one(name, a))


def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Return the upper (or `lower`) triangular factor of positive definite matrices.

    Only that triangle is read.
    """
    a = _matrix("cholesky", a)
    factor = factors.cholesky(a if lower else adjoint(a), symmetrize_input=False)
    return factor if lower else adjoint(factor)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """Return the Cholesky factor and `lower`, as `cho_solve` takes them."""
    return cholesky(a, lower), lower


def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Solve a x = b by what `cho_factor(a)` returned."""
    c, lower = c_and_lower
    c, b = promote_dtypes_inexact(*(one("cho_solve", x) for x in operands("cho_solve", c, b)))
    solve_by = functools.partial(factors.triangular_solve, c, left_side=True, lower=lower)
    once = solve_by(b, transpose_a=not lower, conjugate_a=not lower)
    return solve_by(once, transpose_a=lower, conjugate_a=lower)


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """Return both LU factors in one matrix, and the pivots, as `lu_solve` takes them."""
    found, pivots, _ = factors.lu(_matrix("lu_factor", a))
    return found, pivots


def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: Any,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solve a x = b by what `lu_factor(a)` returned; with `trans` 1 or 2, a^T x = b or a^H x = b.

    Raises: ValueError for another `trans`.
    """
    found, pivots = lu_and_piv
    found, b = (one("lu_solve", x) for x in operands("lu_solve", found, b))
    found, b = promote_dtypes_inexact(found, b)
    if trans not in (0, 1, 2):
        wrong = f"'trans' value must be 0, 1, or 2, got {trans}"
        raise refused("lu_solve", (found, b), wrong, "leave trans out")
    permutation = factors.lu_pivots_to_permutation(one("lu_solve", pivots), found.shape[-1])
    is_vector = b.ndim == found.ndim - 1
    if is_vector:
        b = expand_dims(b, (b.ndim,))
    b = conjugated(b) if trans == 2 else b
    out = factors.solve_by_factors(found, permutation, b, bool(trans))
    out = conjugated(out) if trans == 2 else out
    return squeeze(out, (-1,)) if is_vector else out


def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, ...]:
    """Return P, L, U with a = P L U; with `permute_l`, P L and U."""
    a = _matrix("lu", a)
    found, _, permutation = factors.lu(a)
    rows, columns = a.shape[-2:]
    count = minimum(rows, columns)
    left = slice_in_dim(below(found, -1), 0, count, axis=-1)
    left = add(left, identity(left))
    right = above(slice_in_dim(found, 0, count, axis=-2))
    shape = (*a.shape[:-1], rows)
    places = broadcasted_iota(_INT, shape, len(shape) - 2)
    chosen = broadcast_in_dim(permutation, shape, (*range(len(shape) - 2), len(shape) - 1))
    p = cast(eq(places, chosen), a.dtype)
    return (matmul(p, left, precision=Precision.HIGHEST), right) if permute_l else (p, left, right)


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Any:
    """Solve a x = b; with assume_a="pos", a is positive definite and one triangle is read."""
    if assume_a not in _ASSUMED:
        raise ValueError(
            three_lines(
                f"solve with assume_a={assume_a!r} at {current_source()}",
                f"Expected assume_a to be one of {list(_ASSUMED)}; got {assume_a!r}",
                "leave assume_a out",
            )
        )
    if assume_a != "pos":
        return linalg.solve(a, b)
    a, b = promote_dtypes_inexact(*(one("solve", x) for x in operands("solve", a, b)))
    return cho_solve(cho_factor(a, lower), b)


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Any:
    """Solve a x = b for triangular a; with `trans` "T" or "C", a^T x = b or a^H x = b.

    Raises: ValueError for another `trans`.
    """
    a, b = (one("solve_triangular", x) for x in operands("solve_triangular", a, b))
    a, b = promote_dtypes_inexact(a, b)
    if trans not in _TRANS:
        known = 'use 0, 1, 2, "N", "T" or "C"'
        raise refused("solve_triangular", (a, b), f"Invalid 'trans' value {trans}", known)
    mode = _TRANS[trans]
    return factors.triangular_solve(
        a,
        b,
        left_side=True,
        lower=lower,
        transpose_a=mode > 0,
        conjugate_a=mode == 2,
        unit_diagonal=unit_diagonal,
    )


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return inverses."""
    return linalg.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return determinants."""
    return linalg.det(a)


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Return U, singular values and V^H; the values alone without `compute_uv`."""
    algorithm = spectral.SvdAlgorithm.QR if lapack_driver == "gesvd" else None
    return spectral.svd(
        _matrix("svd", a),
        full_matrices=full_matrices,
        compute_uv=compute_uv,
        algorithm=algorithm,
    )


def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Return eigenvalues and eigenvectors of Hermitian matrices; the values alone if asked for."""
    for name, value, only in (("b", b, None), ("eigvals", eigvals, None), ("type", type, 1)):
        if value is not only:
            raise NotImplementedError(
                three_lines(
                    f"eigh with {name}={value!r:.40} at {current_source()}",
                    f"Only the {name}={only} case of eigh is implemented",
                    f"leave {name} out",
                )
            )
    vectors, values = spectral.eigh(_matrix("eigh", a), lower=lower)
    return values if eigvals_only else (values, vectors)


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """Return Q and R; R alone with mode="r"; with `pivoting` also the order of columns.

    Raises: ValueError for a mode that is not "full", "economic" or "r".
    """
    a = _matrix("qr", a)
    if mode not in ("full", "economic", "r"):
        wrong = f"Unsupported QR decomposition mode '{mode}'"
        raise refused("qr", (a,), wrong, 'use "full", "economic" or "r"')
    out = orthogonal.qr(a, full_matrices=mode != "economic", pivoting=pivoting)
    return out[1:] if mode == "r" else out


# The factors of Padé's approximants, and up to which norm they are exact to the last digit.
# Source: Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).
_PADE_SINGLE = (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0)
_PADE_DOUBLE = (
    *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0),
    *(129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0),
    *(40840800.0, 960960.0, 16380.0, 182.0, 1.0),
)
_NORM_SINGLE, _NORM_DOUBLE = 3.925724783138660, 5.371920351148152


def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """Return exponentials of matrices; nan if more than `max_squarings` squarings are needed.

    Raises: ValueError for matrices that are not square.
    """
    A = _matrix("expm", A)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        wrong = f"Expected A to be a (batched) square matrix, got {A.shape=}."
        raise refused("expm", (A,), wrong, "pass a square matrix")
    if dtypes.bit_width(A.dtype) < 32:
        wrong = f"A.dtype={A.dtype} is not supported."
        raise refused("expm", (A,), wrong, "convert to float32 first", TypeError)
    if 0 in A.shape:
        return A
    double = dtypes.finfo(A.dtype).bits == 64
    size = max_(sum_(abs(A), -2), -1)
    bound = _NORM_DOUBLE if double else _NORM_SINGLE
    squarings = ceil(maximum(0, log2(divide(size, bound))))
    scale = cast(exp2(-squarings), A.dtype)
    small = multiply(A, broadcast_in_dim(scale, A.shape, range(A.ndim - 2)))
    even, odd = _pade(small, _PADE_DOUBLE if double else _PADE_SINGLE)
    numerator, denominator = add(even, odd), subtract(even, odd)
    if upper_triangular:
        out = factors.triangular_solve(denominator, numerator, left_side=True)
    else:
        out = factors.linear_solve(denominator, numerator)
    needed = broadcast_in_dim(squarings, A.shape, range(A.ndim - 2))

    def squared(i: Any, x: Any) -> Any:
        more = gt(needed, cast(i, needed.dtype))
        return choose_by(more, matmul(x, x, precision=Precision.HIGHEST), x)

    out = fori_loop(0, max_squarings, squared, out)
    return choose_by(gt(needed, constant(max_squarings, needed)), np.nan, out)


def _pade(a: Any, b: tuple[float, ...]) -> tuple[Any, Any]:
    """Return the even and the odd part of sum(b[i] a^i)."""
    square = matmul(a, a, precision=Precision.HIGHEST)
    power = identity(a)
    even = odd = None
    for i in range(0, len(b), 2):
        terms = multiply(power, b[i]), multiply(power, b[i + 1])
        even = terms[0] if even is None else add(even, terms[0])
        odd = terms[1] if odd is None else add(odd, terms[1])
        power = square if i == 0 else matmul(power, square, precision=Precision.HIGHEST)
    return even, matmul(a, odd, precision=Precision.HIGHEST)


def block_diag(*arrs: Any) -> Any:
    """Return a matrix with the given ones along its diagonal, and zeros elsewhere.

    Raises: ValueError for arrays with more than two axes.
    """
    if not arrs:
        return zeros((1, 0))
    blocks = [atleast_2d(one("block_diag", x)) for x in operands("block_diag", *arrs)]
    for i, x in enumerate(blocks):
        if x.ndim > 2:
            wrong = (
                "Arguments to jax.scipy.linalg.block_diag must have at most 2 dimensions, got "
                f"{aval_of(x)} at argument {i}."
            )
            raise refused("block_diag", (x,), wrong, "use vmap for stacks")
    blocks = list(promote_dtypes(*blocks))
    width = sum(x.shape[1] for x in blocks)
    rows, left = [], 0
    for x in blocks:
        right = width - left - x.shape[1]
        rows.append(pad(x, constant(0, x), [(0, 0, 0), (left, right, 0)]))
        left += x.shape[1]
    return concatenate(rows, 0)


def toeplitz(c: Any, r: Any = None) -> Any:
    """Return the matrix of first column `c` and first row `r` whose diagonals are constant.

    Without `r`, the matrix is Hermitian.
    """
    c = one("toeplitz", c)
    r = conjugated(c) if r is None else one("toeplitz", r)
    c, r = promote_dtypes(c, r)
    rows, columns = c.shape[-1], r.shape[-1]
    values = concatenate([flip(c, -1), slice_in_dim(r, 1, columns, axis=-1)], c.ndim - 1)
    index = np.arange(rows - 1, -1, -1)[:, None] + np.arange(columns)
    return take(values, index, axis=-1)
