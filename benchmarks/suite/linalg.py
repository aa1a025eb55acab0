"""Rows of matrix products, factorizations and solves."""

from __future__ import annotations

from typing import Any

import numpy
import scipy.linalg

from benchmarks.suite.row import Row, Work, normal, shared


def matmul(n: int, dtype: str = "float32") -> Work:
    """Multiply square matrices."""
    x, y = (normal(n, n, dtype=dtype, seed=i) for i in range(2))
    return shared(lambda np, x, y: x @ y, x, y)


def matmul_f64(n: int) -> Work:
    """Multiply square matrices of float64."""
    return matmul(n, "float64")


def matmul_transposed(n: int) -> Work:
    """Multiply a transposed matrix with another."""
    return shared(lambda np, x, y: x.T @ y, normal(n, n), normal(n, n, seed=1))


def matmul_slim(n: int, inner: int) -> Work:
    """Multiply a slim matrix with a small one, as layers of networks do."""
    return shared(lambda np, x, y: x @ y, normal(n, inner), normal(inner, inner, seed=1))


def dense(n: int) -> Work:
    """Multiply, add a bias and cut off below zero."""

    def program(lib: Any, x: Any, w: Any, b: Any) -> Any:
        return lib.root.nn.relu(x @ w + b)

    return Work(
        (normal(n, n), normal(n, n, seed=1), normal(n, seed=2)),
        program,
        lambda x, w, b: numpy.maximum(x @ w + b, 0),
        lambda torch, x, w, b: torch.relu(x @ w + b),
    )


def batched(batch: int, n: int) -> Work:
    """Multiply a batch of square matrices."""
    return shared(lambda np, x, y: x @ y, normal(batch, n, n), normal(batch, n, n, seed=1))


def matvec(n: int) -> Work:
    """Multiply a matrix and a vector."""
    return shared(lambda np, a, x: a @ x, normal(n, n), normal(n, seed=1))


def contraction(n: int, width: int) -> Work:
    """Contract two arrays of four axes, as attention does."""

    def of(np: Any, q: Any, k: Any) -> Any:
        return np.einsum("bqhd,bkhd->bhqk", q, k)

    shape = (4, n, 8, width)

    def plain(q: Any, k: Any) -> Any:
        return numpy.matmul(q.transpose(0, 2, 1, 3), k.transpose(0, 2, 3, 1))

    return shared(of, normal(*shape), normal(*shape, seed=1), plain=plain)


def distances(n: int, m: int, width: int) -> Work:
    """Return all distances between two sets of points."""

    def of(np: Any, x: Any, y: Any) -> Any:
        return (x * x).sum(1)[:, None] - 2 * (x @ y.T) + (y * y).sum(1)[None, :]

    return shared(of, normal(n, width), normal(m, width, seed=1))


def _definite(*shape: int, dtype: str = "float32") -> numpy.ndarray:
    n = shape[-1]
    a = normal(*shape, n, dtype="float64") / n**0.5
    return (a @ a.swapaxes(-1, -2) + 2 * numpy.eye(n)).astype(dtype)


def cholesky(n: int) -> Work:
    """Factorize a positive definite matrix."""
    return Work(
        (_definite(n),),
        lambda lib, a: lib.np.linalg.cholesky(a),
        numpy.linalg.cholesky,
        lambda torch, a: torch.linalg.cholesky(a),
    )


def solve(n: int) -> Work:
    """Solve linear equations."""
    return Work(
        (_definite(n), normal(n, seed=1)),
        lambda lib, a, b: lib.np.linalg.solve(a, b),
        numpy.linalg.solve,
        lambda torch, a, b: torch.linalg.solve(a, b),
    )


def small_solves(batch: int, n: int) -> Work:
    """Solve many small systems."""
    return Work(
        (_definite(batch, n), normal(batch, n, 1, seed=1)),
        lambda lib, a, b: lib.np.linalg.solve(a, b),
        numpy.linalg.solve,
        lambda torch, a, b: torch.linalg.solve(a, b),
    )


def triangular(n: int, m: int) -> Work:
    """Solve a triangular system for many right-hand sides."""

    def program(lib: Any, a: Any, b: Any) -> Any:
        return lib.root.lax.linalg.triangular_solve(a, b, left_side=True, lower=True)

    return Work(
        (numpy.tril(_definite(n)), normal(n, m, seed=1)),
        program,
        lambda a, b: scipy.linalg.solve_triangular(a, b, lower=True),
        lambda torch, a, b: torch.linalg.solve_triangular(a, b, upper=False),
    )


def eigenvalues(n: int) -> Work:
    """Return the eigenvalues of a symmetric matrix."""
    return Work(
        (_definite(n),),
        lambda lib, a: lib.np.linalg.eigvalsh(a),
        numpy.linalg.eigvalsh,
        lambda torch, a: torch.linalg.eigvalsh(a),
    )


def inverse(n: int) -> Work:
    """Invert a matrix of float64."""
    return Work(
        (_definite(n, dtype="float64"),),
        lambda lib, a: lib.np.linalg.inv(a),
        numpy.linalg.inv,
        lambda torch, a: torch.linalg.inv(a),
    )


def determinants(batch: int, n: int) -> Work:
    """Return the logarithms of many determinants."""
    return Work(
        (_definite(batch, n),),
        lambda lib, a: lib.np.linalg.slogdet(a)[1],
        lambda a: numpy.linalg.slogdet(a)[1],
        lambda torch, a: torch.linalg.slogdet(a)[1],
    )


def singular_values(n: int, m: int) -> Work:
    """Return singular values."""
    return Work(
        (normal(n, m),),
        lambda lib, a: lib.np.linalg.svd(a, compute_uv=False),
        lambda a: numpy.linalg.svd(a, compute_uv=False),
        lambda torch, a: torch.linalg.svdvals(a),
    )


ROWS = [
    *(
        Row(f"matmul {n}^2", "matrix", matmul, (n,), (5,), 1e-4, compiled=n == 64)
        for n in (16, 64, 256, 512, 2048)
    ),
    Row("matmul f64 512^2", "matrix", matmul_f64, (512,), (5,), 1e-12, x64=True),
    Row("x.T @ y, 512^2", "matrix", matmul_transposed, (512,), (5,), 1e-4),
    Row("matmul 8192 x 64 by 64^2", "matrix", matmul_slim, (8192, 64), (9, 4), 1e-4),
    Row("relu(x @ w + b), 512^2", "matrix", dense, (512,), (5,), 1e-4, compiled=True),
    Row("batched matmul, 64 of 128^2", "matrix", batched, (64, 128), (3, 4), 1e-4),
    Row("batched matmul, 10,000 of 4^2", "matrix", batched, (10_000, 4), (3, 4), 1e-4),
    Row("matrix by vector 2048", "matrix", matvec, (2048,), (5,), 1e-4),
    Row("matrix by vector 64", "matrix", matvec, (64,), (5,), 1e-4),
    Row("einsum of attention, 128 x 64", "matrix", contraction, (128, 64), (3, 4), 1e-4),
    Row("distances 2000 x 500 x 16", "matrix", distances, (2000, 500, 16), (5, 4, 3), 1e-4),
    Row("cholesky 256", "solves", cholesky, (256,), (5,), 1e-4),
    Row("solve 512", "solves", solve, (512,), (5,), 1e-3),
    Row("1000 solves of 8^2", "solves", small_solves, (1000, 8), (3, 4), 1e-3),
    Row("triangular solve 256, 64 sides", "solves", triangular, (256, 64), (5, 3), 1e-3),
    Row("eigenvalues 128, symmetric", "solves", eigenvalues, (128,), (5,), 1e-4),
    Row("inverse f64 256", "solves", inverse, (256,), (5,), 1e-9, x64=True),
    Row("1000 log-determinants of 8^2", "solves", determinants, (1000, 8), (3, 4), 1e-3),
    Row("singular values 256 x 64", "solves", singular_values, (256, 64), (7, 4), 1e-4),
]
