"""Matrix decompositions on NVIDIA GPUs as calls to cuSOLVER, which JAX's plugin provides."""

from __future__ import annotations

from typing import Any

from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.linear import factors
from kiln.engines.xla.lowerings.linear.factors import INT, Out
from kiln.engines.xla.lowerings.linear.routines import call
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.sizes.size import Dim, minimum
from kiln.ops.indexing.static_slicing import slice_in_dim
from kiln.ops.linear import linalg, orthogonal, spectral, spectral_algorithms
from kiln.ops.linear.matrices import adjoint, real_dtype

_JACOBI_UP_TO = 1024
"""The maximum number of rows and columns for which Jacobi's method is faster than QR iteration."""


def _cholesky(b: Builder, out: Out, x: Value) -> Value:
    return factors.cholesky(b, x, "cusolver_potrf_ffi", "lower = true")


def _lu(b: Builder, out: Out, x: Value) -> list[Value]:
    return factors.lu(b, x, "cusolver_getrf_ffi")


def _geqrf(b: Builder, out: Out, x: Value) -> list[Value]:
    return factors.geqrf(b, out, x, "cusolver_geqrf_ffi")


def _householder_product(b: Builder, out: Out, a: Value, taus: Value) -> Value:
    return factors.householder_product(b, a, taus, "cusolver_orgqr_ffi")


def _eigh(b: Builder, out: Out, x: Value, *, lower: bool, **_: Any) -> list[Value]:
    config = f"algorithm = 0 : ui8, lower = {str(lower).lower()}"
    return factors.eigh(b, out, x, "cusolver_syevd_ffi", config)


def _svd(
    b: Builder,
    out: Out,
    x: Value,
    *,
    full_matrices: bool,
    compute_uv: bool,
    algorithm: Any,
    **_: Any,
) -> list[Value]:
    rows, columns = x.shape[-2:]
    count = minimum(rows, columns)
    sizes = (rows, columns) if full_matrices else (count, count)
    by_qr = algorithm is spectral_algorithms.SvdAlgorithm.QR or max(rows, columns) > _JACOBI_UP_TO
    factored = _by_qr if by_qr else _by_jacobi
    return factors.svd(
        b, x, compute_uv, lambda x: factored(b, x, count, sizes, full_matrices, compute_uv)
    )


def _by_jacobi(
    b: Builder, x: Value, count: Dim, sizes: tuple[Dim, Dim], full: bool, vectors: bool
) -> tuple[Value, Value, Value, Value]:
    stack, (rows, columns) = x.shape[:-2], x.shape[-2:]
    # The batched routine for small matrices only computes all vectors.
    economic = not full and minimum(rows, columns) > 32
    left, right = (count, count) if economic else (rows, columns)
    results = [
        (x.shape, x.dtype, 2),
        ((*stack, count), real_dtype(x.dtype), 1),
        ((*stack, rows, left), x.dtype, 2),
        ((*stack, columns, right), x.dtype, 2),
        (stack, INT, 0),
    ]
    config = f"compute_uv = {str(vectors).lower()}, full_matrices = {str(not economic).lower()}"
    _, values, u, v, info = call(b, "cusolver_gesvdj_ffi", [(x, 2)], results, config, [(0, 0)])

    def shortened(u: Any, v: Any) -> tuple[Any, Any]:
        return slice_in_dim(u, 0, sizes[0], axis=-1), slice_in_dim(adjoint(v), 0, sizes[1], axis=-2)

    u, vt = b.lower_fun(shortened, u, v)
    return values, u, vt, info


def _by_qr(
    b: Builder, x: Value, count: Dim, sizes: tuple[Dim, Dim], full: bool, vectors: bool
) -> tuple[Value, Value, Value, Value]:
    stack, (rows, columns) = x.shape[:-2], x.shape[-2:]
    # The routine takes tall matrices: a wide row-major matrix is its transpose in column-major
    # order.
    wide = rows < columns
    core = 0 if wide else 2
    left = ((*stack, rows, sizes[0]), x.dtype, core)
    right = ((*stack, sizes[1], columns), x.dtype, core)
    results = [
        (x.shape, x.dtype, core),
        ((*stack, count), real_dtype(x.dtype), 1),
        *((right, left) if wide else (left, right)),
        (stack, INT, 0),
    ]
    flags = {"compute_uv": vectors, "full_matrices": full, "transposed": wide}
    config = ", ".join(f"{name} = {str(flag).lower()}" for name, flag in flags.items())
    found = call(b, "cusolver_gesvd_ffi", [(x, core)], results, config, [(0, 0)])
    _, values, first, second, info = found
    return (values, second, first, info) if wide else (values, first, second, info)


LOWERINGS: dict[Primitive, Lowering] = {
    linalg.cholesky_p: _cholesky,
    linalg.lu_p: _lu,
    orthogonal.geqrf_p: _geqrf,
    orthogonal.householder_product_p: _householder_product,
    spectral.eigh_p: _eigh,
    spectral.svd_p: _svd,
}
