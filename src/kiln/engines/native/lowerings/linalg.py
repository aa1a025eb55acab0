"""Factorizations, and solving triangular systems, by kernels on stacks of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.engines.native.builder import Builder, Lowering, Unsupported
from kiln.engines.native.layout import Layout
from kiln.engines.native.lowerings.contraction import converted, kernel_name
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops import linalg, orthogonal, spectral
from kiln.ops.contraction import accumulator_dtype

Out = Sequence[ShapedArray]
_TYPES = ("f32", "f64", "c64", "c128")


def stack_size(x: Layout, rank: int = 2) -> int:
    """Return how many matrices a value has, or vectors for a rank of 1."""
    return math.prod(x.shape[: len(x.shape) - rank])


def by_routine(
    name: str, primitive: Operation, numbers: Callable[..., Sequence[int]]
) -> Lowering:
    """Return the lowering that calls `kiln_NAME_T` with numbers of operands and parameters."""

    def lower(b: Builder, out: Out, *xs: Layout, **params: Any) -> Any:
        kind = kernel_name(xs[0].dtype)
        if kind not in _TYPES:
            raise Unsupported(f"no kernel computes {primitive.name} of {kind}")
        made = [b.room(aval) for aval in out]
        if all(x.size for x in xs):
            b.kernel(f"kiln_{name}_{kind}", xs, made, numbers(*xs, **params))
        else:
            _of_nothing(b, made)
        return made if primitive.multiple else made[0]

    return lower


def _of_nothing(b: Builder, made: Sequence[Layout]) -> None:
    """Fill the factors of matrices without elements: identities, zeros, and orders."""
    for x in made:
        if not x.size:
            continue
        if x.dtype == np.int32:
            value = np.broadcast_to(np.arange(x.shape[-1], dtype=np.int32), x.shape)
        elif len(x.shape) > 1 and x.shape[-1] and x.shape[-2]:
            value = np.broadcast_to(np.eye(*x.shape[-2:], dtype=x.dtype), x.shape)
        else:
            value = np.zeros(x.shape, x.dtype)
        b.write(x, b.constant(value, x.dtype))


def _matrix(x: Layout, **_: Any) -> list[int]:
    return [stack_size(x), *x.shape[-2:]]


def _square(x: Layout, **_: Any) -> list[int]:
    return [stack_size(x), x.shape[-1]]


def _triangular_solve(
    b: Builder,
    out: Out,
    a: Layout,
    right: Layout,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Layout:
    dtype = accumulator_dtype(a.dtype, right.dtype, right.dtype)
    kind = kernel_name(dtype)
    if kind not in _TYPES:
        raise Unsupported(f"no kernel solves triangular systems of {kind}")
    made = b.space(right.shape, dtype)
    options = (left_side, lower, transpose_a, conjugate_a, unit_diagonal)
    numbers = [stack_size(right), *right.shape[-2:], *map(int, options)]
    if made.size:
        operands = [converted(b, a, dtype), converted(b, right, dtype)]
        b.kernel(f"kiln_triangular_solve_{kind}", operands, [made], numbers)
    return converted(b, made, out[0].dtype)


def _pivots_to_permutation(
    b: Builder, out: Out, pivots: Layout, *, permutation_size: int
) -> Layout:
    made = b.room(out[0])
    numbers = [stack_size(pivots, 1), pivots.shape[-1], permutation_size]
    if not made.size:
        return made
    if not pivots.size:
        _of_nothing(b, [made])
        return made
    b.kernel("kiln_lu_pivots_to_permutation", [pivots], [made], numbers)
    return made


def _svd(x: Layout, *, full_matrices: bool, compute_uv: bool, algorithm: Any, **_: Any) -> Any:
    by_qr = algorithm is spectral.SvdAlgorithm.QR
    return [*_matrix(x), int(full_matrices), int(compute_uv), int(by_qr)]


def _eig(
    x: Layout, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, **_: Any
) -> list[int]:
    return [*_square(x), int(compute_left_eigenvectors), int(compute_right_eigenvectors)]


_ROUTINES: dict[Operation, tuple[str, Callable[..., Sequence[int]]]] = {
    linalg.cholesky_p: ("cholesky", _square),
    linalg.lu_p: ("lu", _matrix),
    orthogonal.geqrf_p: ("geqrf", _matrix),
    orthogonal.geqp3_p: ("geqp3", _matrix),
    orthogonal.householder_product_p: (
        "householder_product",
        lambda x, taus: [*_matrix(x), taus.shape[-1]],
    ),
    spectral.eigh_p: ("eigh", lambda x, *, lower, **_: [*_square(x), int(lower)]),
    spectral.svd_p: ("svd", _svd),
    spectral.eig_p: ("eig", _eig),
}
LOWERINGS: dict[Operation, Lowering] = {
    **{p: by_routine(name, p, numbers) for p, (name, numbers) in _ROUTINES.items()},
    linalg.triangular_solve_p: _triangular_solve,
    linalg.lu_pivots_to_permutation_p: _pivots_to_permutation,
}
