"""Decompositions common to all libraries of routines: LAPACK and cuSOLVER.

The caller passes the library's name of the routine and its configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.engines.xla.lowerings.elements.conversion import convert
from kiln.engines.xla.lowerings.linear.pivots import permutation_of
from kiln.engines.xla.lowerings.linear.routines import call, finite_or_zero, nan_unless, succeeded
from kiln.engines.xla.stablehlo.builder import Builder, Value
from kiln.ir.sizes.size import minimum
from kiln.ir.types import ShapedArray
from kiln.ops.linear.contraction import accumulator_dtype
from kiln.ops.linear.matrices import conjugated
from kiln.ops.linear.matrices import lower as lower_triangle

Out = Sequence[ShapedArray]
INT = np.dtype(np.int32)


def cholesky(b: Builder, x: Value, target: str, config: str) -> Value:
    """Emit the lower factor of positive definite matrices."""
    results = [(x.shape, x.dtype, 2), (x.shape[:-2], INT, 0)]
    factor, info = call(b, target, [(x, 2)], results, config, [(0, 0)])
    found: Value = b.lower_fun(lower_triangle, nan_unless(b, succeeded(b, info), factor))
    return found


def lu(b: Builder, x: Value, target: str) -> list[Value]:
    """Emit both factors, the pivots, and their permutation."""
    stack, (rows, columns) = x.shape[:-2], x.shape[-2:]
    results = [(x.shape, x.dtype, 2), ((*stack, minimum(rows, columns)), INT, 1), (stack, INT, 0)]
    factors, pivots, info = call(b, target, [(x, 2)], results, overwritten=[(0, 0)])
    # A positive number is the position of a zero pivot: the factors are valid.
    factors = nan_unless(b, b.compare("GE", info, b.like(0, info)), factors)
    pivots = b.apply("subtract", pivots, b.like(1, pivots))
    return [factors, pivots, permutation_of(b, pivots, rows)]


def geqrf(b: Builder, out: Out, x: Value, target: str) -> list[Value]:
    """Emit a QR factorization as Householder reflections."""
    results = [(x.shape, x.dtype, 2), (out[1].shape, x.dtype, 1)]
    return call(b, target, [(x, 2)], results, overwritten=[(0, 0)])


def householder_product(b: Builder, a: Value, taus: Value, target: str) -> Value:
    """Emit the product of reflections."""
    operands, results = [(a, 2), (taus, 1)], [(a.shape, a.dtype, 2)]
    return call(b, target, operands, results, overwritten=[(0, 0)])[0]


def eigh(b: Builder, out: Out, x: Value, target: str, config: str) -> list[Value]:
    """Emit the eigenvectors and eigenvalues of Hermitian matrices."""
    results = [(x.shape, x.dtype, 2), (out[1].shape, out[1].dtype, 1), (x.shape[:-2], INT, 0)]
    vectors, values, info = call(b, target, [(x, 2)], results, config, [(0, 0)])
    good = succeeded(b, info)
    return [nan_unless(b, good, vectors), nan_unless(b, good, values)]


def svd(
    b: Builder, x: Value, vectors: bool, factored: Callable[[Value], Sequence[Value]]
) -> list[Value]:
    """Emit singular values, and vectors if requested, which `factored` computes with a status.

    Routines may not terminate for numbers that are not finite.
    """
    finite, x = b.lower_fun(finite_or_zero, x)
    values, u, vt, info = factored(x)
    good = b.apply("and", succeeded(b, info), finite)
    return [nan_unless(b, good, y) for y in ([values, u, vt] if vectors else [values])]


def triangular_solve(
    b: Builder,
    x: Value,
    y: Value,
    transpose_a: bool,
    conjugate_a: bool,
    modes: tuple[Any, Any, Any],
    solved: Callable[[Value, Value, Any], Value],
) -> Value:
    """Emit a solution in the accumulation dtype; `solved` computes it from matrices and a mode.

    The modes are: the matrix itself, its transpose, its adjoint.
    """
    dtype = accumulator_dtype(x.dtype, y.dtype, y.dtype)
    x, wide = convert(b, x, dtype), convert(b, y, dtype)
    if conjugate_a and not transpose_a:
        x = b.lower_fun(conjugated, x)
    mode = modes[1 + conjugate_a] if transpose_a else modes[0]
    return convert(b, solved(x, wide, mode), y.dtype)
