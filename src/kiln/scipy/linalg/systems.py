"""Systems of linear equations, inverses, determinants, Sylvester's equation."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.control.loops.loops import fori_loop
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.linalg import det as _det
from kiln.numpy.linalg import inv as _inv
from kiln.numpy.linalg import solve as _solve
from kiln.numpy.promotion import promote_dtypes_inexact
from kiln.ops.linear import linalg, spectral
from kiln.ops.linear.matrices import adjoint, complex_dtype
from kiln.ops.linear.pivots import lu_pivots_to_permutation
from kiln.scipy.linalg.factorizations import cholesky, matrix, refused, schur

ASSUMED = ("gen", "sym", "her", "pos")


def _operands(name: str, a: Any, b: Any) -> tuple[Any, Any, bool]:
    """Return a matrix, right-hand sides as columns, and whether there was one vector."""
    x, y = promote_dtypes_inexact(matrix(name, a), jnp.asarray(b))
    # Of right-hand sides that could be either, those with a number for each row are vectors.
    fits = y.ndim > 1 and y.shape[-2] == x.shape[-1] and y.shape != x.shape[:-1]
    vector = y.ndim == 1 or (y.ndim != x.ndim and not fits)
    columns = y[..., None] if vector else y
    if columns.ndim < 2 or columns.shape[-2] != x.shape[-1]:
        raise refused(
            f"{name} of {x.aval}, {y.aval}",
            f"The arguments to {name} must have shapes a=[..., m, m] and b=[..., m, k] or "
            f"b=[..., m]; got a={tuple(x.shape)} and b={tuple(y.shape)}",
            "pass a right-hand side with as many rows as the matrix",
        )
    batch = jnp.broadcast_shapes(x.shape[:-2], columns.shape[:-2])
    x = jnp.broadcast_to(x, (*batch, *x.shape[-2:]))
    columns = jnp.broadcast_to(columns, (*batch, *columns.shape[-2:]))
    return x, columns, vector


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """Solve a x = b; with `assume_a` "pos" by Cholesky factors of one triangle.

    Shapes: (..., m, m), (..., m, k) or (..., m) -> that of b.
    Raises: ValueError for another assumption, or incompatible shapes.
    Example:
        >>> a, b = jnp.array([[4.0, 2.0], [2.0, 5.0]]), jnp.array([2.0, 5.0])
        >>> kiln.scipy.linalg.solve(a, b, assume_a="pos").round(4)
        Array([0., 1.], dtype=float32)
    """
    if assume_a not in ASSUMED:
        raise refused(
            f"solve with assume_a={assume_a!r}",
            f"Expected assume_a to be one of {list(ASSUMED)}; got {assume_a!r}",
            'leave assume_a out, or say "pos" for positive definite matrices',
        )
    x, y, vector = _operands("solve", a, b)
    if assume_a == "pos":
        out = cho_solve((cholesky(x, lower), lower), y)
    else:
        out = _solve(x, y)
    return out[..., 0] if vector else out


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b for triangular a; its transpose with `trans` 1 or "T", its adjoint with 2, "C".

    Raises: ValueError for another `trans`, or incompatible shapes.
    Example:
        >>> a, b = jnp.array([[2.0, 0.0], [1.0, 4.0]]), jnp.array([2.0, 9.0])
        >>> kiln.scipy.linalg.solve_triangular(a, b, lower=True)
        Array([1., 2.], dtype=float32)
    """
    ways = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in ways:
        raise refused(
            f"solve_triangular with trans={trans!r}",
            f"Invalid 'trans' value {trans}",
            'use 0, 1 or 2, or "N", "T", "C"',
        )
    x, y, vector = _operands("solve_triangular", a, b)
    out = linalg.triangular_solve(
        x,
        y,
        left_side=True,
        lower=lower,
        transpose_a=ways[trans] > 0,
        conjugate_a=ways[trans] == 2,
        unit_diagonal=unit_diagonal,
    )
    return out[..., 0] if vector else out


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b, given the result of `cho_factor(a)`.

    Shapes: factors `c_and_lower[0]` (..., n, n), b (n,) or (..., n, k) -> that of b. `overwrite_b`
        and `check_finite` have no effect.
    Example:
        >>> a, b = jnp.array([[4.0, 2.0], [2.0, 5.0]]), jnp.array([2.0, 5.0])
        >>> kiln.scipy.linalg.cho_solve(kiln.scipy.linalg.cho_factor(a), b).round(4)
        Array([0., 1.], dtype=float32)
    """
    c, lower = c_and_lower
    y = solve_triangular(c, b, trans=0 if lower else 2, lower=lower)
    return solve_triangular(c, y, trans=2 if lower else 0, lower=lower)


def lu_solve(
    lu_and_piv: tuple[Array, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b, given the result of `lu_factor(a)`; with `trans` 1 aᵀ x = b, with 2 aᴴ x = b.

    Raises: ValueError for another `trans`, or incompatible shapes.
    Example:
        >>> a, b = jnp.array([[1.0, 2.0], [4.0, 4.0]]), jnp.array([3.0, 8.0])
        >>> kiln.scipy.linalg.lu_solve(kiln.scipy.linalg.lu_factor(a), b)
        Array([1., 1.], dtype=float32)
    """
    if trans not in (0, 1, 2):
        raise refused(f"lu_solve with trans={trans!r}", "'trans' value must be 0, 1, or 2", "use 0")
    factors, pivots = lu_and_piv
    x, y, vector = _operands("lu_solve", factors, b)
    order = lu_pivots_to_permutation(jnp.asarray(pivots), x.shape[-1])
    order = jnp.broadcast_to(order, (*x.shape[:-2], x.shape[-1]))
    if trans == 0:
        y = jnp.take_along_axis(y, order[..., None], -2)
        y = _triangle(x, y, True, 0)
        out = _triangle(x, y, False, 0)
    else:
        y = _triangle(x, y, False, trans)
        y = _triangle(x, y, True, trans)
        out = jnp.take_along_axis(y, jnp.argsort(order, axis=-1)[..., None], -2)
    return out[..., 0] if vector else out


def _triangle(x: Any, y: Any, lower: bool, trans: int) -> Any:
    return linalg.triangular_solve(
        x,
        y,
        left_side=True,
        lower=lower,
        transpose_a=trans > 0,
        conjugate_a=trans == 2,
        unit_diagonal=lower,
    )


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the inverse of square matrices.

    Shapes: `a` (..., n, n) -> (..., n, n). `overwrite_a` and `check_finite` have no effect.
    Raises: ValueError for matrices that are not square.
    Example:
        >>> kiln.scipy.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
        Array([[0.5 , 0.  ],
               [0.  , 0.25]], dtype=float32)
    """
    return _inv(matrix("inv", a))


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the determinant of square matrices.

    Shapes: `a` (..., n, n) -> (...). `overwrite_a` and `check_finite` have no effect.
    Raises: ValueError for matrices that are not square.
    Example:
        >>> kiln.scipy.linalg.det(jnp.array([[2.0, 1.0], [0.0, 3.0]]))
        Array(6., dtype=float32)
    """
    return _det(matrix("det", a))


def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8
) -> Array:
    """Solve A X + X B = C; nan where an eigenvalue of A is within `tol` of one of -B.

    By complex Schur forms (Bartels and Stewart, 1972), or with `method` "eigen" by eigenvectors,
    which has derivatives.

    Shapes: (..., m, m), (..., n, n), (..., m, n) -> (..., m, n), leading axes broadcast.
    Raises: ValueError for another method, or incompatible shapes.
    Example:
        >>> a, b, c = 2 * jnp.eye(2), jnp.eye(2), 3 * jnp.ones((2, 2))
        >>> kiln.scipy.linalg.solve_sylvester(a, b, c).round(4)
        Array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    a, b, c = promote_dtypes_inexact(*(matrix("solve_sylvester", x, False) for x in (A, B, C)))
    m, n = c.shape[-2:]
    fits = a.shape[-2:] == (m, m) and b.shape[-2:] == (n, n)
    if not fits or method not in ("schur", "eigen"):
        wrong = (
            f"Unrecognized method {method}. The two valid methods are either 'schur' or 'eigen'."
            if method not in ("schur", "eigen")
            else f"Incompatible shapes for Sylvester equation: A: {a.shape}, B: {b.shape}, "
            f"C: {c.shape}"
        )
        raise refused("solve_sylvester", wrong, "pass shapes (m, m), (n, n), (m, n)")
    solve = jnp.vectorize(
        lambda a, b, c: _sylvester(a, b, c, method, tol), signature="(m,m),(n,n),(m,n)->(m,n)"
    )
    return solve(a, b, c)


def _sylvester(a: Any, b: Any, c: Any, method: str, tol: float) -> Any:
    m, n = c.shape
    wide = complex_dtype(c.dtype)
    if method == "eigen":
        p, u = _eigenvectors(a.astype(wide))
        q, v = _eigenvectors(b.astype(wide))
        right = _solve(u, jnp.matmul(c.astype(wide), v))
        sums = p[:, None] + q[None, :]
        solution = jnp.matmul(jnp.matmul(u, right / sums), _inv(v))
    else:
        r, u = schur(a, "complex")
        s, v = schur(b, "complex")
        sums = jnp.diagonal(r)[:, None] + jnp.diagonal(s)[None, :]
        f = jnp.matmul(adjoint(u), jnp.matmul(c.astype(wide), v))
        one = jnp.eye(m, dtype=wide)

        def column(k: Any, y: Any) -> Any:
            # Column k of R Y + Y S = F; the columns from k on of Y are still 0.
            left = f[:, k] - jnp.matmul(y, s[:, k])
            found = linalg.triangular_solve(r + s[k, k] * one, left[:, None], left_side=True)
            return y.at[:, k].set(found[:, 0])

        solution = jnp.matmul(u, fori_loop(0, n, column, jnp.zeros_like(f)))
        solution = jnp.matmul(solution, adjoint(v))
    solution = jnp.where(jnp.any(jnp.abs(sums) < tol), np.nan, solution)
    return solution if jnp.iscomplexobj(c) else solution.real


def _eigenvectors(x: Any) -> Any:
    return spectral.eig(x, compute_left_eigenvectors=False, enable_eigvec_derivs=True)
