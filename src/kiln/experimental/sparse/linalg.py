"""Linear algebra with sparse matrices: linear systems, and the largest eigenvalues.

Source: Knyazev, "Toward the optimal preconditioned eigensolver: locally optimal block
preconditioned conjugate gradient method" (2001).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.lazy import scipy_sparse, scipy_sparse_linalg
from kiln.base.source import current_source
from kiln.control.custom_rules.linear_solve import custom_linear_solve
from kiln.control.effects.callback import pure_callback
from kiln.control.loops.loops import while_loop
from kiln.experimental.sparse.csr import CSR, csr_matvec
from kiln.jit.signatures.struct import ShapeDtypeStruct

__all__ = ["lobpcg_standard", "spsolve"]


def spsolve(
    data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1
) -> Any:
    """Solve A x = b, where A is square and given by the buffers of a CSR matrix.

    SciPy solves it on the host; `tol` and `reorder` are for other solvers. It is differentiable
    with respect to `data` and `b`.
    """
    del tol, reorder
    b = jnp.asarray(b)
    size = b.shape[0]
    # The number of columns does not follow from the buffers: the matrix is square.
    mat = CSR((data, indices, indptr), shape=(size, size))
    kind = ShapeDtypeStruct(b.shape, b.dtype)

    def solver(transposed: bool) -> Callable[..., Any]:
        def on_host(values: Any, columns: Any, starts: Any, right: Any) -> Any:
            parts = (np.asarray(values), np.asarray(columns), np.asarray(starts))
            found = scipy_sparse.csr_matrix(parts, shape=(size, size))
            found = found.T if transposed else found
            out = scipy_sparse_linalg.spsolve(found.tocsc(), np.asarray(right))
            return np.asarray(out, b.dtype)

        def solve(_: Any, right: Any) -> Any:
            return pure_callback(on_host, kind, *mat._bufs, right, vmap_method="sequential")

        return solve

    return custom_linear_solve(
        lambda x: csr_matvec(mat, x), b, solver(transposed=False), solver(transposed=True)
    )


def lobpcg_standard(A: Any, X: Any, m: int = 100, tol: Any = None) -> tuple[Any, Any, Any]:
    """Return the largest eigenvalues of a symmetric matrix, their eigenvectors, and the step count.

    `A` is an (n, n) array, or a function that multiplies (n, k) arrays by it; the k columns of `X`
    are initial guesses. After at most `m` steps, or when |A v - theta v| is below tol * 10 * n *
    (theta + |A v|) for all pairs (by default with the epsilon of the dtype), the shapes of the
    results are (k,), (n, k) and (). It is not differentiable.

    Raises: ValueError unless 0 < 5 k < n, and A and X have equal dtypes and sizes.
    """
    X = jnp.asarray(X)
    product = A if callable(A) else lambda x: jnp.matmul(A, x)
    n, k = X.shape
    _check(product, X)
    limit = (jnp.finfo(X.dtype).eps if tol is None else tol) * 10 * n

    def ritz(basis: Any) -> tuple[Any, Any, Any]:
        """Return the largest Ritz pairs in the span of a basis, and their coefficients."""
        basis, _ = jnp.linalg.qr(basis)
        image = product(basis)
        small = basis.T @ image
        values, vectors = jnp.linalg.eigh((small + small.T) / 2)
        return values[::-1][:k], basis @ vectors[:, ::-1][:, :k], image @ vectors[:, ::-1][:, :k]

    def misses(theta: Any, image: Any, rest: Any) -> Any:
        bound = limit * (jnp.abs(theta) + jnp.linalg.norm(image, axis=0))
        return (jnp.linalg.norm(rest, axis=0) > bound).any()

    def going_on(carry: Any) -> Any:
        i, theta, vectors, image, _ = carry
        return (i < m) & misses(theta, image, image - vectors * theta[None])

    def step(carry: Any) -> Any:
        i, theta, vectors, image, last = carry
        rest = _unit(image - vectors * theta[None])
        theta, new, image = ritz(jnp.concatenate([vectors, rest, last], 1))
        # The component of the step outside the span of the old vectors.
        moved = _unit(new - vectors @ (vectors.T @ new))
        return i + 1, theta, new, image, moved

    theta, vectors, image = ritz(X)
    # Without a previous step, directions that are independent of the others.
    first = _unit(product(image) - image * theta[None])
    start = (jnp.zeros((), jnp.int32), theta, vectors, image, first)
    i, theta, vectors, _, _ = while_loop(going_on, step, start)
    return theta, vectors, i


def _unit(x: Any) -> Any:
    size = jnp.linalg.norm(x, axis=0, keepdims=True)
    return x / jnp.where(size == 0, 1, size)


def _check(product: Callable[[Any], Any], X: Any) -> None:
    n, k = X.shape
    found = product(jnp.zeros((n, 1), X.dtype))
    wrong = ""
    if k == 0:
        wrong = f"must have search dim > 0, got {k}"
    elif k * 5 >= n:
        wrong = f"expected search dim * 5 < matrix dim (got {k * 5}, {n})"
    elif found.dtype != X.dtype:
        wrong = f"A, X must have same dtypes (were {found.dtype}, {X.dtype})"
    elif found.shape != (n, 1):
        wrong = f"A must be ({n}, {n}) matrix A, got output {found.shape}"
    if wrong:
        raise ValueError(
            three_lines(
                f"lobpcg_standard at {current_source()}",
                wrong,
                "use numpy.linalg.eigh for small matrices, or pass fewer vectors",
            )
        )
