"""Decompositions of matrices as calls of LAPACK, which jaxlib brings as custom calls.

The routines take stacks of column-major matrices. Where one reports a failure, its results are nan.
Operands without elements decide nothing, so the meaning of such an equation is a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.engines.xla.builder import Builder, Lowering, Value
from kiln.engines.xla.lowerings.conversion import convert
from kiln.engines.xla.text import int_list
from kiln.ir.types import ShapedArray
from kiln.ops import linalg, orthogonal, spectral
from kiln.ops.contraction import accumulator_dtype
from kiln.ops.conversion import imag
from kiln.ops.elementwise import bitwise_and, eq, is_finite, select
from kiln.ops.families import full_like
from kiln.ops.lapack import NAN
from kiln.ops.matrices import conjugated, is_complex, real_dtype, real_part
from kiln.ops.matrices import lower as lower_triangle
from kiln.ops.reduction import reduce_and
from kiln.ops.shape import broadcast_in_dim, broadcasted_iota, reduce_sum

Out = Sequence[ShapedArray]
_INT = np.dtype(np.int32)
_LETTERS = {"<f4": "s", "<f8": "d", "<c8": "c", "<c16": "z"}
Result = tuple[tuple[Any, ...], Any, int]
"""One result of a routine: shape, dtype, how many of its axes belong to one matrix."""
Part = tuple[Sequence[Any], int]
"""A shape, and how many of its axes belong to one matrix."""


def _letter(text: str) -> str:
    return f"{ord(text)} : ui8"


def _layout(rank: int, core: int) -> str:
    """Return the order of axes in memory, the fastest first: matrices are column-major."""
    inner = [rank - 2, rank - 1] if core == 2 else [rank - 1] if core == 1 else []
    order = [*inner, *range(rank - len(inner) - 1, -1, -1)]
    return f"dense<{int_list(order) if order else ''}> : tensor<{rank}xindex>"


def _call(
    b: Builder,
    routine: str,
    operands: Sequence[tuple[Value, int]],
    results: Sequence[Result],
    config: str = "",
    overwritten: Sequence[tuple[int, int]] = (),
) -> list[Value]:
    """Call a LAPACK routine; `overwritten` pairs a result with the operand whose place it takes."""
    avals = [ShapedArray(shape, dtype) for shape, dtype, _ in results]
    prefix = _LETTERS[operands[0][0].dtype.str]
    aliases = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{out if len(avals) > 1 else ''}]"
        f", operand_index = {operand}, operand_tuple_indices = []>"
        for out, operand in overwritten
    )
    attrs = (
        f'api_version = 4 : i32, call_target_name = "lapack_{prefix}{routine}_ffi", '
        f"backend_config = {{{config}}}, "
        f"operand_layouts = [{', '.join(_layout(x.ndim, core) for x, core in operands)}], "
        f"result_layouts = [{', '.join(_layout(len(s), core) for s, _, core in results)}], "
        f"output_operand_aliases = [{aliases}]"
    )
    if b.module.partition.count > 1:
        parts = [(x.shape, core) for x, core in operands], [(s, core) for s, _, core in results]
        attrs += _split_by_stack(*parts)
    return b.op("stablehlo.custom_call", [x for x, _ in operands], avals, attrs)


def _split_by_stack(operands: Sequence[Part], results: Sequence[Part]) -> str:
    """Say that devices may divide the matrices of a stack among them, but no matrix.

    The axes that number matrices are common to all operands and results.
    """
    sizes: list[Any] = list(operands[0][0][: len(operands[0][0]) - operands[0][1]])
    stack = len(sizes)
    if not stack:
        return ""

    def axes(shape: Sequence[Any], core: int) -> str:
        own = range(len(sizes), len(sizes) + core)
        sizes.extend(shape[len(shape) - core :] if core else ())
        return f"[{', '.join(map(_factor, [*range(stack), *own]))}]"

    sides = [", ".join([axes(*part) for part in side]) for side in (operands, results)]
    factors = ", ".join(f"{_factor(i)}={size}" for i, size in enumerate(sizes))
    return (
        f', mhlo.frontend_attributes = {{num_batch_dims = "{stack}"}}, sdy.sharding_rule = '
        f"#sdy.op_sharding_rule<({sides[0]})->({sides[1]}) {{{factors}}}, custom>"
    )


def _factor(number: int) -> str:
    # Shardy calls them i, j, ..., z, z_1, z_2, ...
    return chr(ord("i") + number) if number < 18 else f"z_{number - 17}"


def _nan_unless(b: Builder, good: Value, x: Value) -> Value:
    """Return x where its matrix is good, nan elsewhere."""
    mask = b.broadcast(good, ShapedArray(x.shape, np.dtype(np.bool_)), range(good.ndim))
    return b.select(mask, x, b.like(NAN if x.dtype.kind == "c" else np.nan, x))


def _succeeded(b: Builder, info: Value) -> Value:
    return b.compare("EQ", info, b.like(0, info))


def _on_elements(primitive: Primitive, lower: Lowering) -> Lowering:
    """Return the lowering that writes the meaning of operands without elements as a constant."""

    def lowering(b: Builder, out: Out, *operands: Value, **params: Any) -> Any:
        if not any(0 in x.shape for x in operands):
            return lower(b, out, *operands, **params)
        empty = [np.zeros(x.shape, x.dtype) for x in operands]
        found = primitive.numpy(*empty, **params)
        values = found if primitive.multiple else [found]
        return [b.constant(value, aval) for value, aval in zip(values, out, strict=True)]

    return lowering


def _cholesky(b: Builder, out: Out, x: Value) -> Value:
    stack = x.shape[:-2]
    results = [(x.shape, x.dtype, 2), (stack, _INT, 0)]
    factor, info = _call(b, "potrf", [(x, 2)], results, f"uplo = {_letter('L')}", [(0, 0)])
    factor = _nan_unless(b, _succeeded(b, info), factor)
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
    results = [(x.shape, x.dtype, 2), ((*stack, min(rows, columns)), _INT, 1), (stack, _INT, 0)]
    factors, pivots, info = _call(b, "getrf", [(x, 2)], results, overwritten=[(0, 0)])
    # A positive number says where a pivot is zero: the factors are good.
    factors = _nan_unless(b, b.compare("GE", info, b.like(0, info)), factors)
    pivots = b.apply("subtract", pivots, b.like(1, pivots))
    return [factors, pivots, _permutation(b, out[2:], pivots, permutation_size=rows)]


def _permutation(b: Builder, out: Out, pivots: Value, *, permutation_size: int) -> Value:
    count = pivots.shape[-1]
    shape = (*pivots.shape[:-1], permutation_size)
    step = b.constant(0, ShapedArray((), _INT))
    start = b.iota(ShapedArray(shape, _INT), len(shape) - 1)

    def body(b: Builder, i: Value, chosen: Value, order: Value) -> list[Value]:
        order = b.lower_fun(_exchanged, i, chosen, order)
        return [b.apply("add", i, b.like(1, i)), chosen, order]

    loop = b.while_loop(
        lambda b, i, *_: b.compare("LT", i, b.like(count, i)), body, [step, pivots, start]
    )
    return loop[2]


def _exchanged(i: Any, pivots: Any, order: Any) -> Any:
    """Exchange elements i and pivots[i] of permutations."""
    last = len(order.shape) - 1
    steps = eq(broadcasted_iota(_INT, pivots.shape, last), i)
    other = reduce_sum(select(steps, pivots, _INT.type(0)), (last,))
    place = broadcasted_iota(_INT, order.shape, last)
    here = eq(place, i)
    there = eq(place, broadcast_in_dim(other, order.shape, range(last)))
    mine = reduce_sum(select(here, order, _INT.type(0)), (last,))
    theirs = reduce_sum(select(there, order, _INT.type(0)), (last,))
    mine, theirs = (broadcast_in_dim(x, order.shape, range(last)) for x in (mine, theirs))
    return select(here, theirs, select(there, mine, order))


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
    good = _succeeded(b, info)
    return [_nan_unless(b, good, vectors), _nan_unless(b, good, values)]


def _finite_or_zero(x: Any) -> tuple[Any, Any]:
    """Return which matrices are finite, and the matrices with zeros in place of the others."""
    shape = x.shape
    number = real_part(x)
    inside = is_finite(number)
    if is_complex(x):
        inside = bitwise_and(inside, is_finite(imag(x)))
    finite = reduce_and(inside, (len(shape) - 2, len(shape) - 1))
    mask = broadcast_in_dim(finite, shape, range(len(shape) - 2))
    return finite, select(mask, x, full_like(x, 0))


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
    count = min(rows, columns)
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
    finite, x = b.lower_fun(_finite_or_zero, x)
    values, u, vt, info = _call(b, name, [(x, 2)], results, config, [(0, 0)])[1:]
    good = b.apply("and", _succeeded(b, info), finite)
    wanted = [values, u, vt] if compute_uv else [values]
    return [_nan_unless(b, good, found) for found in wanted]


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
    good = _succeeded(b, info)
    chosen = [w, *[v for v, c in zip((left, right), wanted, strict=True) if c]]
    return [_nan_unless(b, good, found) for found in chosen]


_LOWERINGS: dict[Primitive, Callable[..., Any]] = {
    linalg.cholesky_p: _cholesky,
    linalg.triangular_solve_p: _triangular_solve,
    linalg.lu_p: _lu,
    linalg.lu_pivots_to_permutation_p: _permutation,
    orthogonal.geqrf_p: _geqrf,
    orthogonal.geqp3_p: _geqp3,
    orthogonal.householder_product_p: _householder_product,
    spectral.eigh_p: _eigh,
    spectral.svd_p: _svd,
    spectral.eig_p: _eig,
}
LOWERINGS: dict[Primitive, Lowering] = {
    primitive: _on_elements(primitive, lower) for primitive, lower in _LOWERINGS.items()
}
