"""Factorizations, and solving triangular systems, by kernels on batches of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.engines.engine import BATCH_INVARIANT
from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import Unsupported
from kiln.engines.native.building.matrix_calls import matrix_call
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.lowerings.linear.contraction import converted
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.linear import linalg, orthogonal, pivots, spectral
from kiln.ops.linear.contraction import accumulator_dtype

Out = Sequence[ShapedArray]


def _factors(primitive: Operation) -> Lowering:
    def lower(b: Builder, out: Out, *xs: Layout, **params: Any) -> Any:
        found = _called(b, primitive, out, xs, params)
        return found if primitive.multiple else found[0]

    return lower


def _called(
    b: Builder, primitive: Operation, out: Out, xs: Sequence[Layout], params: dict[str, Any]
) -> list[Layout]:
    avals = [ShapedArray(x.shape, x.dtype) for x in xs]
    asked = {**params, BATCH_INVARIANT: b.is_batch_invariant}
    call = matrix_call(primitive.name, avals, out, asked)
    if call is None:
        raise Unsupported(f"no kernel computes {primitive.name} of these types")
    made = [b.room(aval) for aval in out]
    if all(x.size != 0 for x in xs):
        b.kernel(call.symbol, xs, made, call.numbers)
    else:
        _fill_factors(b, made)
    return made


def _fill_factors(b: Builder, made: Sequence[Layout]) -> None:
    """Fill the factors of empty matrices: identities, zeros, and permutations."""
    for x in made:
        if x.size == 0:
            continue
        if x.dtype == np.int32:
            value = np.broadcast_to(np.arange(x.shape[-1], dtype=np.int32), x.shape)
        elif len(x.shape) > 1:
            value = np.broadcast_to(np.eye(*x.shape[-2:], dtype=x.dtype), x.shape)
        else:
            value = np.zeros(x.shape, x.dtype)
        b.write(x, b.constant(value, x.dtype))


def _triangular_solve(b: Builder, out: Out, a: Layout, right: Layout, **params: Any) -> Layout:
    dtype = accumulator_dtype(a.dtype, right.dtype, right.dtype)
    operands = [converted(b, x, dtype) for x in (a, right)]
    wide = [ShapedArray(right.shape, dtype)]
    (made,) = _called(b, linalg.triangular_solve_p, wide, operands, params)
    return converted(b, made, out[0].dtype)


LOWERINGS: dict[Operation, Lowering] = {
    **{
        p: _factors(p)
        for p in (
            linalg.cholesky_p,
            linalg.lu_p,
            pivots.lu_pivots_to_permutation_p,
            orthogonal.geqrf_p,
            orthogonal.geqp3_p,
            orthogonal.householder_product_p,
            spectral.eigh_p,
            spectral.svd_p,
            spectral.eig_p,
        )
    },
    linalg.triangular_solve_p: _triangular_solve,
}
