"""Functions of matrices in terms of other operations: no routine of LAPACK is called."""

from __future__ import annotations

from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source
from kiln.control.loops.loops import fori_loop, scan
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.numpy.creation.arrays import asarray
from kiln.numpy.creation.filling import zeros_like
from kiln.numpy.creation.matrices import tril, triu
from kiln.numpy.creation.ranges import arange
from kiln.numpy.elements.elementary import sqrt
from kiln.numpy.indexing.selection import where
from kiln.numpy.manipulation.joining import concatenate
from kiln.numpy.products import matmul
from kiln.numpy.shapes import moveaxis, swapaxes
from kiln.ops.elements.elementwise import abs as absolute
from kiln.ops.linear.spectral import svd


@api_boundary
def tridiagonal_solve(
    dl: ArrayLike,
    d: ArrayLike,
    du: ArrayLike,
    b: ArrayLike,
    *,
    perturb_singular: bool = False,
) -> Array:
    """Solve tridiagonal systems with several right-hand sides.

    The diagonals are (..., m), `dl[0]` and `du[-1]` are not used, `b` is (..., m, n). Rows are
    exchanged for the larger pivot, as LAPACK's gtsv does.

    Raises: TypeError for other shapes, NotImplementedError for `perturb_singular`.
    Example:
        >>> one, b = jnp.ones(3), jnp.array([[2.0], [1.0], [2.0]])
        >>> lax.linalg.tridiagonal_solve(-one, 3 * one, -one, b).round(4)
        Array([[1.],
               [1.],
               [1.]], dtype=float32)
    """
    low, mid, high, right = (asarray(x) for x in (dl, d, du, b))
    asked = f"tridiagonal_solve: {aval_of(low)}, {aval_of(mid)}, {aval_of(high)}, {aval_of(right)}"
    if perturb_singular:
        raise NotImplementedError(
            three_lines(
                f"{asked} at {current_source()}",
                "perturb_singular is not implemented",
                "leave it out; singular systems give infinities",
            )
        )
    if not low.shape == mid.shape == high.shape or right.shape[:-1] != mid.shape:
        raise TypeError(
            three_lines(
                f"{asked} at {current_source()}",
                "dl, d and du must have equal shapes (..., m), and b the shape (..., m, n)",
                "write b[..., None] for one right-hand side",
            )
        )
    if 0 in right.shape:
        return right
    return _solved(low, mid, high, right)


def _solved(low: Any, mid: Any, high: Any, right: Any) -> Any:
    """Eliminate downwards with exchanges of neighbors, then substitute upwards."""
    count = mid.shape[-1]
    index = arange(count)
    low = where(index == 0, 0, low)
    high = where(index == count - 1, 0, high)
    rows = [moveaxis(x, -1, 0) for x in (low, mid, high)]
    rights = moveaxis(right, -2, 0)

    def eliminate(carry: Any, row: Any) -> Any:
        # The pending row has its pivot in this row's column before, and up to two entries after.
        pivot, first, value = carry
        under, center, over, own = row
        swap = absolute(under) > absolute(pivot)
        top = where(swap, under, pivot)
        top1 = where(swap, center, first)
        top2 = where(swap, over, 0)
        lower, lower1 = where(swap, pivot, under), where(swap, first, center)
        lower2 = where(swap, 0, over)
        wide = swap[..., None]
        top_value, low_value = where(wide, own, value), where(wide, value, own)
        factor = lower / top
        after = (
            lower1 - factor * top1,
            lower2 - factor * top2,
            low_value - factor[..., None] * top_value,
        )
        return after, (top, top1, top2, top_value)

    start = (rows[1][0], rows[2][0], rights[0])
    rest = (*[x[1:] for x in rows], rights[1:])
    last, above = scan(eliminate, start, rest)

    def substitute(carry: Any, row: Any) -> Any:
        x1, x2 = carry
        pivot, first, second, value = row
        x = (value - first[..., None] * x1 - second[..., None] * x2) / pivot[..., None]
        return (x, x1), x

    bottom = last[2] / last[0][..., None]
    _, found = scan(substitute, (bottom, zeros_like(bottom)), above, reverse=True)
    return moveaxis(concatenate([found, bottom[None]], axis=0), 0, -2)


@api_boundary
def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """Return alpha * A Aᵀ + beta * C for symmetric C; the upper triangle is that of C's product.

    With `symmetrize_output`, the upper triangle is the transpose of the lower one.

    Example:
        >>> a, c = jnp.array([[1.0], [2.0]]), jnp.zeros((2, 2))
        >>> lax.linalg.symmetric_product(a, c, symmetrize_output=True)
        Array([[1., 2.],
               [2., 4.]], dtype=float32)
    """
    a, c = asarray(a_matrix), asarray(c_matrix)
    found = alpha * matmul(a, swapaxes(a, -1, -2)) + beta * c
    if symmetrize_output:
        lower = tril(found)
        return lower + swapaxes(tril(found, -1), -1, -2)
    return found


@api_boundary
def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """Return the upper triangular factor of RᵀR + wwᵀ, by one plane rotation per row.

    Shapes: `r_matrix` [n, n], upper triangular, `w_vector` [n] -> [n, n].
    Example:
        >>> r = lax.linalg.cholesky_update(2.0 * jnp.eye(2), jnp.array([1.0, 0.0]))
        >>> (r.T @ r).round(4)
        Array([[5., 0.],
               [0., 4.]], dtype=float32)
    """
    r, w = asarray(r_matrix), asarray(w_vector)
    count = r.shape[-1]

    def rotate(i: Any, carry: Any) -> Any:
        r, w = carry
        row, x = r[i], w[i]
        length = sqrt(row[i] * row[i] + x * x)
        c, s = row[i] / length, x / length
        return r.at[i].set(c * row + s * w), c * w - s * row

    return triu(fori_loop(0, count, rotate, (r, w))[0])


@api_boundary
def ormqr(
    a: ArrayLike,
    taus: ArrayLike,
    c: ArrayLike,
    *,
    left: bool = True,
    transpose: bool = False,
) -> Array:
    """Multiply a matrix by the Q of a QR factorization, given as reflectors, or by its adjoint.

    `a` and `taus` are those of `geqrf`. Computes Q C, Qᴴ C (`transpose`), C Q or C Qᴴ.

    Example:
        >>> a, taus = lax.linalg.geqrf(jnp.array([[3.0, 1.0], [4.0, 2.0]]))
        >>> q = lax.linalg.ormqr(a, taus, jnp.eye(2))
        >>> (q @ jnp.triu(a)).round(4)
        Array([[3., 1.],
               [4., 2.]], dtype=float32)
    """
    reflectors, scales, found = asarray(a), asarray(taus), asarray(c)
    count = scales.shape[-1]
    row = arange(reflectors.shape[-2])

    def reflect(step: Any, x: Any) -> Any:
        # Q is the product of the reflections in order; which comes first depends on the side.
        i = step if left == transpose else count - 1 - step
        column = reflectors[..., :, i]
        v = where(row > i, column, where(row == i, 1, 0)).astype(x.dtype)
        tau = scales[..., i].conj() if transpose else scales[..., i]
        if left:
            along = matmul(v.conj()[..., None, :], x)
            return x - tau[..., None, None] * v[..., :, None] * along
        along = matmul(x, v[..., :, None])
        return x - tau[..., None, None] * along * v.conj()[..., None, :]

    return fori_loop(0, count, reflect, found)


@api_boundary
def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Return the polar decomposition x = U H: unitary U, positive semidefinite H.

    It comes from the singular value decomposition, without iterations; the two further results,
    the number of iterations and whether they converged, are 0 and True.

    Of a `dynamic_shape` (m, n), whose sizes may be traced, only that corner of `x` counts, and of
    the results only the same corner of U, and n rows and columns of H.

    Example:
        >>> u, h, *_ = lax.linalg.qdwh(jnp.array([[0.0, -2.0], [3.0, 0.0]]))
        >>> h.round(4)
        Array([[3., 0.],
               [0., 2.]], dtype=float32)
    """
    x = asarray(x)
    if dynamic_shape is not None:
        m, n = dynamic_shape
        rows, columns = (arange(size) for size in x.shape[-2:])
        inside = (rows < m)[:, None] & (columns < n)[None, :]
        x = where(inside[(None,) * (x.ndim - 2)], x, 0)
    left, values, right = svd(x, full_matrices=False)
    adjoint = swapaxes(right, -1, -2).conj()
    positive = matmul(adjoint * values[..., None, :].astype(adjoint.dtype), right)
    positive = (positive + swapaxes(positive, -1, -2).conj()) / 2
    return matmul(left, right), positive, asarray(0), asarray(True)
