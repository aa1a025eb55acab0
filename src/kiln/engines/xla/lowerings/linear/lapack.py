"""Matrix decompositions on the CPU as calls to LAPACK, which jaxlib provides as custom calls."""

from __future__ import annotations

from typing import Any

from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.linear import factors
from kiln.engines.xla.lowerings.linear.factors import INT, Out
from kiln.engines.xla.lowerings.linear.routines import call, nan_unless, succeeded
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.sizes.size import minimum
from kiln.ops.linear import linalg, orthogonal, spectral, spectral_algorithms
from kiln.ops.linear.matrices import real_dtype

_LETTERS = {"<f4": "s", "<f8": "d", "<c8": "c", "<c16": "z"}


def _letter(text: str) -> str:
    return f"{ord(text)} : ui8"


def _target(x: Value, routine: str) -> str:
    """Return the name of a LAPACK routine for a type, given its name without the type's letter."""
    return f"lapack_{_LETTERS[x.dtype.str]}{routine}_ffi"


def _cholesky(b: Builder, out: Out, x: Value) -> Value:
    return factors.cholesky(b, x, _target(x, "potrf"), f"uplo = {_letter('L')}")


def _triangular_solve(
    b: Builder,
    out: Out,
    x: Value,
    y: Value,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Value:
    def solved(x: Value, y: Value, mode: str) -> Value:
        config = (
            f"diag = {_letter('U' if unit_diagonal else 'N')}, "
            f"side = {_letter('L' if left_side else 'R')}, trans_x = {_letter(mode)}, "
            f"uplo = {_letter('L' if lower else 'U')}"
        )
        results = [(y.shape, y.dtype, 2)]
        return call(b, _target(x, "trsm"), [(x, 2), (y, 2)], results, config, [(0, 1)])[0]

    return factors.triangular_solve(b, x, y, transpose_a, conjugate_a, ("N", "T", "C"), solved)


def _lu(b: Builder, out: Out, x: Value) -> list[Value]:
    return factors.lu(b, x, _target(x, "getrf"))


def _geqrf(b: Builder, out: Out, x: Value) -> list[Value]:
    return factors.geqrf(b, out, x, _target(x, "geqrf"))


def _geqp3(b: Builder, out: Out, x: Value) -> list[Value]:
    # Zeros allow all columns to be permuted.
    free = b.constant(0, out[1])
    results = [(x.shape, x.dtype, 2), (out[1].shape, INT, 1), (out[2].shape, x.dtype, 1)]
    operands, overwritten = [(x, 2), (free, 1)], [(0, 0), (1, 1)]
    reduced, order, taus = call(b, _target(x, "geqp3"), operands, results, overwritten=overwritten)
    return [reduced, b.apply("subtract", order, b.like(1, order)), taus]


def _householder_product(b: Builder, out: Out, a: Value, taus: Value) -> Value:
    name = "ungqr" if a.dtype.kind == "c" else "orgqr"
    return factors.householder_product(b, a, taus, _target(a, name))


def _eigh(b: Builder, out: Out, x: Value, *, lower: bool, **_: Any) -> list[Value]:
    name = "heevd" if x.dtype.kind == "c" else "syevd"
    config = f"mode = {_letter('V')}, uplo = {_letter('L' if lower else 'U')}"
    return factors.eigh(b, out, x, _target(x, name), config)


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
    name = "gesvd" if algorithm is spectral_algorithms.SvdAlgorithm.QR else "gesdd"
    mode = ("A" if full_matrices else "S") if compute_uv else "N"
    stack, (rows, columns) = x.shape[:-2], x.shape[-2:]
    count = minimum(rows, columns)
    left, right = (rows, columns) if full_matrices else (count, count)
    results = [
        (x.shape, x.dtype, 2),
        ((*stack, count), real_dtype(x.dtype), 1),
        ((*stack, rows, left), x.dtype, 2),
        ((*stack, right, columns), x.dtype, 2),
        (stack, INT, 0),
    ]
    config, target = f"mode = {_letter(mode)}", _target(x, name)
    return factors.svd(
        b, x, compute_uv, lambda x: call(b, target, [(x, 2)], results, config, [(0, 0)])[1:]
    )


def _eig(
    b: Builder,
    out: Out,
    x: Value,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    **_: Any,
) -> list[Value]:
    wanted = (compute_left_eigenvectors, compute_right_eigenvectors)
    modes = [_letter("V" if w else "N") for w in wanted]
    stack, dtype = x.shape[:-2], out[0].dtype
    parts = 1 if x.dtype.kind == "c" else 2
    results = [
        *[(x.shape[:-1], x.dtype, 1)] * parts,
        *[(x.shape, dtype, 2)] * 2,
        (stack, INT, 0),
    ]
    config = f"compute_left = {modes[0]}, compute_right = {modes[1]}"
    *values, left, right, info = call(b, _target(x, "geev"), [(x, 2)], results, config)
    w = values[0] if parts == 1 else b.op("stablehlo.complex", values, out[0])
    good = succeeded(b, info)
    chosen = [w, *[v for v, c in zip((left, right), wanted, strict=True) if c]]
    return [nan_unless(b, good, found) for found in chosen]


LOWERINGS: dict[Primitive, Lowering] = {
    linalg.cholesky_p: _cholesky,
    linalg.triangular_solve_p: _triangular_solve,
    linalg.lu_p: _lu,
    orthogonal.geqrf_p: _geqrf,
    orthogonal.geqp3_p: _geqp3,
    orthogonal.householder_product_p: _householder_product,
    spectral.eigh_p: _eigh,
    spectral.svd_p: _svd,
    spectral.eig_p: _eig,
}
