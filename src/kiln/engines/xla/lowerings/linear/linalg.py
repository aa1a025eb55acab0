"""Matrix decompositions: by the routines of a platform, or as StableHLO operations.

Results of operands without elements do not depend on them, so they are constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.linear import cusolver, factors, lapack
from kiln.engines.xla.lowerings.linear.factors import Out
from kiln.engines.xla.lowerings.linear.pivots import permutation_of
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.types import ShapedArray
from kiln.ops.linear import linalg, pivots
from kiln.ops.linear.matrices import lower as lower_triangle


def _cholesky(b: Builder, out: Out, x: Value) -> Value:
    factor = b.op("stablehlo.cholesky", [x], x.aval, "lower = true")
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
    flags = {"left_side": left_side, "lower": lower, "unit_diagonal": unit_diagonal}
    attrs = ", ".join(f"{name} = {str(flag).lower()}" for name, flag in flags.items())

    def solved(x: Value, y: Value, mode: str) -> Value:
        told = f"{attrs}, transpose_a = #stablehlo<transpose {mode}>"
        return b.op("stablehlo.triangular_solve", [x, y], y.aval, told)

    modes = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
    return factors.triangular_solve(b, x, y, transpose_a, conjugate_a, modes, solved)


def _permutation(b: Builder, out: Out, pivots: Value, *, permutation_size: int) -> Value:
    return permutation_of(b, pivots, permutation_size)


_OPERATIONS: dict[Primitive, Lowering] = {
    linalg.cholesky_p: _cholesky,
    linalg.triangular_solve_p: _triangular_solve,
}
_ROUTINES: dict[tuple[str, ...], dict[Primitive, Lowering]] = {
    ("cpu",): lapack.LOWERINGS,
    ("cuda",): cusolver.LOWERINGS,
}


def _by_platform(primitive: Primitive) -> Lowering:
    """Return the lowering that depends on the platforms of a module.

    A platform without one of its own gets a call to LAPACK, which exports reject.
    """

    def lowering(b: Builder, out: Out, *operands: Value, **params: Any) -> Any:
        if not any(0 in x.shape for x in operands):
            routines = _ROUTINES.get(b.module.platforms, {})
            lower = routines.get(primitive) or _OPERATIONS.get(primitive)
            return (lower or lapack.LOWERINGS[primitive])(b, out, *operands, **params)
        empty = [np.zeros(x.shape, x.dtype) for x in operands]
        found = primitive.numpy(*empty, **params)
        values = found if primitive.multiple else [found]
        return [b.constant(value, aval) for value, aval in zip(values, out, strict=True)]

    return lowering


LOWERINGS: dict[Primitive, Lowering] = {
    pivots.lu_pivots_to_permutation_p: _permutation,
    **{primitive: _by_platform(primitive) for primitive in lapack.LOWERINGS},
}
