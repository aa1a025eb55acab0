"""Decompositions of matrices on the CPU as calls of LAPACK, which jaxlib brings as custom calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.engines.xla.builder import Builder, Lowering, Value
from kiln.engines.xla.lowerings.conversion import convert
from kiln.engines.xla.lowerings.pivots import permutation_of
from kiln.engines.xla.lowerings.routines import call, finite_or_zero, nan_unless, succeeded
from kiln.ir.sizes import minimum
from kiln.ir.types import ShapedArray
from kiln.ops import linalg, orthogonal, spectral
from kiln.ops.contraction import accumulator_dtype
from kiln.ops.matrices import conjugated, real_dtype
from kiln.ops.matrices import lower as lower_triangle

Out = Sequence[ShapedArray]
_INT = np.dtype(np.int32)
_LETTERS = {"<f4": "s", "<f8": "d", "<c8": "c", "<c16": "z"}


def _letter(text: str) -> str:
    return f"{ord(text)} : ui8"


def _call(
    b: Builder, routine: str, operands: Sequence[tuple[Value, int]], *rest: Any, **named: Any
) -> list[Value]:
    """Call a LAPACK routine by its name without the letter of its type."""
    return call(
        b, f"lapack_{_LETTERS[operands[0][0].dtype.str]}{routine}_ffi", operands, *rest, **named
    )


def _cholesky(b: Builder, out: Out, x: Value) -> Value:
    stack = x.shape[:-2]
    results = [(x.shape, x.dtype, 2), (stack, _INT, 0)]
    factor, info = _call(b, "potrf", [(x, 2)], results, f"uplo = {_letter('L')}", [(0, 0)])
    factor = nan_unless(b, succeeded(b, info), factor)
    found: Value = b.lower_fun(lower_triangle, factor)
    return found


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
    dtype = accumulator_dtype(x.dtype, y.dtype, y.dtype)
    x, wide = convert(b, x, dtype), convert(b, y, dtype)
    if conjugate_a and not transpose_a:
        x = b.lower_fun(conjugated, x)
    mode = ("C" if conjugate_a else "T") if transpose_a else "N"
    config = (
        f"diag = {_letter('U' if unit_diagonal else 'N')}, "
        f"side = {_letter('L' if left_side else 'R')}, trans_x = {_letter(mode)}, "
        f"uplo = {_letter('L' if lower else 'U')}"
    )
    results = [(y.shape, dtype, 2)]
    (found,) = _call(b, "trsm", [(x, 2), (wide, 2)], results, config, [(0, 1)])
    return convert(b, found, y.dtype)


def _lu(b: Builder, out: Out, x: Value) -> list[Value]:
    stack, (rows, columns) = x.shape[:-2], x.shape[-2:]
    results = [(x.shape, x.dtype, 2), ((*stack, minimum(rows, columns)), _INT, 1), (stack, _INT, 0)]
    factors, pivots, info = _call(b, "getrf", [(x, 2)], results, overwritten=[(0, 0)])
    # A positive number says where a pivot is zero: the factors are good.
    factors = nan_unless(b, b.compare("GE", info, b.like(0, info)), factors)
    pivots = b.apply("subtract", pivots, b.like(1, pivots))
    return [factors, pivots, permutation_of(b, pivots, rows)]


def _geqrf(b: Builder, out: Out, x: Value) -> list[Value]:
    results = [(x.shape, x.dtype, 2), (out[1].shape, x.dtype, 1)]
    return _call(b, "geqrf", [(x, 2)], results, overwritten=[(0, 0)])


def _geqp3(b: Builder, out: Out, x: Value) -> list[Value]:
    # Zeros leave all columns free to move.
    free = b.constant(0, out[1])
    results = [(x.shape, x.dtype, 2), (out[1].shape, _INT, 1), (out[2].shape, x.dtype, 1)]
    reduced, order, taus = _call(
        b, "geqp3", [(x, 2), (free, 1)], results, overwritten=[(0, 0), (1, 1)]
    )
    return [reduced, b.apply("subtract", order, b.like(1, order)), taus]


def _householder_product(b: Builder, out: Out, a: Value, taus: Value) -> Value:
    name = "ungqr" if a.dtype.kind == "c" else "orgqr"
    results = [(a.shape, a.dtype, 2)]
    return _call(b, name, [(a, 2), (taus, 1)], results, overwritten=[(0, 0)])[0]


def _eigh(b: Builder, out: Out, x: Value, *, lower: bool, **_: Any) -> list[Value]:
    name = "heevd" if x.dtype.kind == "c" else "syevd"
    config = f"mode = {_letter('V')}, uplo = {_letter('L' if lower else 'U')}"
    stack = x.shape[:-2]
    results = [(x.shape, x.dtype, 2), (out[1].shape, out[1].dtype, 1), (stack, _INT, 0)]
    vectors, values, info = _call(b, name, [(x, 2)], results, config, [(0, 0)])
    good = succeeded(b, info)
    return [nan_unless(b, good, vectors), nan_unless(b, good, values)]


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
    name = "gesvd" if algorithm is spectral.SvdAlgorithm.QR else "gesdd"
    mode = ("A" if full_matrices else "S") if compute_uv else "N"
    stack, (rows, columns) = x.shape[:-2], x.shape[-2:]
    count = minimum(rows, columns)
    left, right = (rows, columns) if full_matrices else (count, count)
    results = [
        (x.shape, x.dtype, 2),
        ((*stack, count), real_dtype(x.dtype), 1),
        ((*stack, rows, left), x.dtype, 2),
        ((*stack, right, columns), x.dtype, 2),
        (stack, _INT, 0),
    ]
    config = f"mode = {_letter(mode)}"
    # LAPACK may never return from numbers that are not finite.
    finite, x = b.lower_fun(finite_or_zero, x)
    values, u, vt, info = _call(b, name, [(x, 2)], results, config, [(0, 0)])[1:]
    good = b.apply("and", succeeded(b, info), finite)
    wanted = [values, u, vt] if compute_uv else [values]
    return [nan_unless(b, good, found) for found in wanted]


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
        (stack, _INT, 0),
    ]
    config = f"compute_left = {modes[0]}, compute_right = {modes[1]}"
    *values, left, right, info = _call(b, "geev", [(x, 2)], results, config)
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
