"""Factorizations by LAPACK, against what the primitives mean: every sign and order too."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from kiln.engines.native.executables import openblas
from kiln.ops.linear import linalg, orthogonal, spectral, spectral_algorithms
from kiln.ops.linear.matrices import complex_dtype, real_dtype
from kiln.ops.linear.pivots import lu_pivots_to_permutation_p
from tests.unit._runtime.linear.kernel_calls import run_kernel

TYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
every_type = pytest.mark.parametrize("kind", TYPES)
SHAPES = [(1, 1), (3, 3), (5, 3), (3, 6), (40, 40), (70, 30), (0, 3), (3, 0)]


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    openblas.load()


def random(kind: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape)
    if kind[0] == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(TYPES[kind])


def positive(kind: str, batch: int, n: int) -> np.ndarray:
    x = random(kind, batch, n, n)
    return x @ x.conj().swapaxes(1, 2) + 0.5 * np.eye(n, dtype=x.dtype)


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.full(shape, 55, dtype)


def close(found: np.ndarray, expected: np.ndarray, scale: float = 1) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind == "i":
        np.testing.assert_array_equal(found, expected)
        return
    bound = scale * (1e-10 if found.dtype in (np.float64, np.complex128) else 3e-4)
    np.testing.assert_allclose(found, expected, rtol=bound, atol=bound)


@every_type
def test_cholesky(kind: str) -> None:
    for n in (0, 1, 2, 7, 50, 130):
        x = positive(kind, 3, n)
        if n > 1:
            x[1] = -x[1]
            x += np.triu(np.full((n, n), 9, x.dtype), 1)  # is not read
        out = empty(x.shape, x.dtype)
        run_kernel(f"kiln_cholesky_{kind}", [x, out], [3, n])
        close(out, linalg.cholesky_p.numpy(x), max(n, 1))
        if n > 1:
            assert np.isnan(out[1][np.tril_indices(n)]).all()


@every_type
def test_triangular_solve(kind: str) -> None:
    for (m, n), bits in itertools.product(
        [(1, 1), (4, 1), (6, 3), (3, 5), (40, 20), (0, 2), (2, 0)],
        itertools.product([False, True], repeat=5),
    ):
        names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
        options = dict(zip(names, bits, strict=True))
        if kind[0] == "f" and options["conjugate_a"]:
            continue
        order = m if options["left_side"] else n
        a = (random(kind, 2, order, order) / (order + 1) + 2 * np.eye(order)).astype(TYPES[kind])
        b = random(kind, 2, m, n)
        out = empty(b.shape, b.dtype)
        run_kernel(f"kiln_triangular_solve_{kind}", [a, b, out], [2, m, n, *bits, False])
        close(out, linalg.triangular_solve_p.numpy(a, b, **options))


@every_type
def test_lu(kind: str) -> None:
    for m, n in SHAPES:
        x = random(kind, 2, m, n)
        if m == n == 3:
            x[0] = 0
            x[1, 0, 0] = np.nan
        count = min(m, n)
        outs = [empty(x.shape, x.dtype), empty((2, count), np.int32), empty((2, m), np.int32)]
        run_kernel(f"kiln_lu_{kind}", [x, *outs], [2, m, n, False])
        if m == n == 3:
            x, outs = x[:1], [out[:1] for out in outs]
        for found, expected in zip(outs, linalg.lu_p.numpy(x), strict=True):
            close(found, expected, 100)


def solve_exactly(lu: np.ndarray, permutation: np.ndarray) -> np.ndarray:
    """Return what the factors are those of."""
    m, n = lu.shape[-2:]
    count = min(m, n)
    wide = lu.astype(np.float64)
    lower = np.tril(wide[..., :count], -1) + np.eye(m, count)
    product = lower @ np.triu(wide[..., :count, :])
    out = np.empty_like(product)
    np.put_along_axis(out, permutation[..., None].astype(int), product, -2)
    return out


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(
    ("batch", "m", "n"),
    [
        *((b, n, n) for b in (4, 5, 16, 37) for n in (1, 2, 5, 8, 16)),
        *((9, m, n) for m, n in ((3, 7), (12, 5), (16, 1), (1, 16))),
        *((2, m, n) for m, n in ((17, 17), (33, 50), (100, 31), (130, 130), (300, 260))),
        *((1, m, n) for m, n in ((256, 256), (150, 400), (401, 90))),
    ],
)
def test_lu_of_many_and_of_large_matrices(kind: str, batch: int, m: int, n: int) -> None:
    x = random(kind, batch, m, n)
    if batch > 4:
        x[1] = 0
        x[2, :, 0] = 0
        x[3, -1] = x[3, 0]
    count = min(m, n)
    lu, pivots = empty(x.shape, x.dtype), empty((batch, count), np.int32)
    permutation = empty((batch, m), np.int32)
    run_kernel(f"kiln_lu_{kind}", [x, lu, pivots, permutation], [batch, m, n, False])
    for found, order in zip(pivots, permutation, strict=True):
        expected = np.arange(m)
        for i, pivot in enumerate(found):
            assert i <= pivot < m
            expected[[i, pivot]] = expected[[pivot, i]]
        np.testing.assert_array_equal(order, expected)
    assert abs(np.tril(lu[:, :, :count], -1)).max() <= 1
    error = abs(solve_exactly(lu, permutation) - x).max()
    assert error <= 4 * float(np.finfo(x.dtype).eps) * max(m, n) * max(1, abs(x).max())


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("bits", list(itertools.product([False, True], repeat=3)))
def test_triangular_solve_of_many_and_of_large_matrices(
    kind: str, bits: tuple[bool, bool, bool]
) -> None:
    lower, transpose, unit = bits
    for batch, m, n in [
        *((b, m, n) for b in (4, 21) for m, n in ((1, 1), (2, 3), (8, 1), (16, 16))),
        *((2, 20, 9), (1, 64, 64), (1, 130, 70), (3, 100, 131), (1, 257, 300), (1, 40, 3)),
    ]:
        a = random(kind, batch, m, m) / (m + 1) + 2 * np.eye(m)
        a = a.astype(TYPES[kind])
        b = random(kind, batch, m, n)
        out = empty(b.shape, b.dtype)
        numbers = [batch, m, n, True, lower, transpose, False, unit, False]
        run_kernel(f"kiln_triangular_solve_{kind}", [a, b, out], numbers)
        used = (np.tril(a) if lower else np.triu(a)).astype(np.float64)
        if unit:
            used = np.where(np.eye(m, dtype=bool), 1, used)
        product = (used.swapaxes(1, 2) if transpose else used) @ out
        close(product.astype(b.dtype), b)
        same = b.copy()  # in place
        run_kernel(f"kiln_triangular_solve_{kind}", [a, same, same], numbers)
        np.testing.assert_array_equal(same, out)


def test_pivots() -> None:
    pivots = np.array([[2, 2, 3], [0, 1, 2], [4, 4, 4]], np.int32)
    out = empty((3, 5), np.int32)
    run_kernel("kiln_lu_pivots_to_permutation", [pivots, out], [3, 3, 5])
    close(out, lu_pivots_to_permutation_p.numpy(pivots, permutation_size=5))


@every_type
def test_orthogonal(kind: str) -> None:
    for m, n in SHAPES:
        x = random(kind, 2, m, n)
        count = min(m, n)
        outs = [empty(x.shape, x.dtype), empty((2, count), x.dtype)]
        run_kernel(f"kiln_geqrf_{kind}", [x, *outs], [2, m, n, False])
        for found, expected in zip(outs, orthogonal.geqrf_p.numpy(x), strict=True):
            if x.size:
                close(found, expected, 10)
        outs = [empty(x.shape, x.dtype), empty((2, n), np.int32), empty((2, count), x.dtype)]
        run_kernel(f"kiln_geqp3_{kind}", [x, *outs], [2, m, n, False])
        for at, (found, expected) in enumerate(zip(outs, orthogonal.geqp3_p.numpy(x), strict=True)):
            if x.size or at == 1:
                close(found, expected, 10)
        if m >= n:
            for k in {count, count // 2}:
                taus = np.ascontiguousarray(outs[2][:, :k])
                q = empty(x.shape, x.dtype)
                run_kernel(f"kiln_householder_product_{kind}", [outs[0], taus, q], [2, m, n, k])
                close(q, orthogonal.householder_product_p.numpy(outs[0], taus), 10)


@every_type
@pytest.mark.parametrize("lower", [False, True])
def test_eigh(kind: str, lower: bool) -> None:
    for n in (0, 1, 2, 5, 40):
        x = random(kind, 2, n, n)
        vectors, values = empty(x.shape, x.dtype), empty((2, n), real_dtype(x.dtype))
        run_kernel(f"kiln_eigh_{kind}", [x, vectors, values], [2, n, lower])
        expected = spectral.eigh_p.numpy(x, lower=lower)
        close(values, expected[1], 10)
        close(vectors, expected[0], 100)


@every_type
def test_svd(kind: str) -> None:
    for (m, n), full, wanted, by_qr in itertools.product(
        SHAPES, [False, True], [False, True], [False, True]
    ):
        x = random(kind, 3, m, n)
        if x.size:
            x[1, 0, 0] = np.inf
        count = min(m, n)
        left, right = (m, n) if full else (count, count)
        outs = [empty((3, count), real_dtype(x.dtype))]
        if wanted:
            outs += [empty((3, m, left), x.dtype), empty((3, right, n), x.dtype)]
        run_kernel(f"kiln_svd_{kind}", [x, *outs], [3, m, n, full, wanted, by_qr])
        algorithm = spectral_algorithms.SvdAlgorithm.QR if by_qr else None
        expected = spectral.svd_p.numpy(
            x, full_matrices=full, compute_uv=wanted, algorithm=algorithm
        )
        for found, meant in zip(outs, expected, strict=True):
            if count < 10 or found is outs[0]:
                close(found, meant, 100)
        if wanted and count >= 10:
            # The signs of large ones depend on rounding.
            s, u, vt = (out[::2] for out in outs)
            close((u[..., :count] * s[:, None]).astype(x.dtype) @ vt[:, :count], x[::2], 10)
            for q in (u.swapaxes(1, 2), vt):
                unit = np.broadcast_to(np.eye(q.shape[1], dtype=q.dtype), (2, *q.shape[1:2] * 2))
                close(q @ q.conj().swapaxes(1, 2), unit, 10)


@every_type
def test_eig(kind: str) -> None:
    # The order of many values depends on rounding.
    largest = 20 if kind in ("f64", "c128") else 4
    for n, left, right in itertools.product((0, 1, 2, 3, largest), [False, True], [False, True]):
        x = random(kind, 3, n, n)
        if n > 2:
            x[1, 0, 0] = np.nan
        dtype = complex_dtype(x.dtype)
        outs = [empty((3, n), dtype), *[empty(x.shape, dtype) for _ in range(left + right)]]
        run_kernel(f"kiln_eig_{kind}", [x, *outs], [3, n, left, right])
        expected = spectral.eig_p.numpy(
            x, compute_left_eigenvectors=left, compute_right_eigenvectors=right
        )
        close(outs[0], expected[0], 100)
        for found, meant in zip(outs[1:], expected[1:], strict=True):
            # So do their signs.
            sign = np.sign((found.conj() * meant).real.sum(1, keepdims=True)).astype(dtype)
            close(found * sign, meant, 100)
