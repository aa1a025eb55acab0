"""Contractions: kernels on matrices, or nests where a kernel gains nothing.

A kernel reads an operand in place if its axes merge into a batch of matrices, row-major or
column-major; others are copied first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import Complex, Scalar, machine_type
from kiln.engines.native.loop_ir.extents import at_least, estimate, is_named, quotient
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.statements import Axis, Index, Kernel, Reduce
from kiln.engines.native.lowerings.elements.conversion import convert
from kiln.engines.native.lowerings.elements.elementwise import mul
from kiln.engines.native.lowerings.linear.matrices import arranged
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.ops.linear import contraction as ops
from kiln.ops.shape import kept_axes

Out = Sequence[ShapedArray]

SMALL_WORK = 512
"""Products with fewer multiplications are nests, which are fused with the code around them."""
SMALL_MATRIX = 1 << 14
"""So are matrix-vector products with fewer matrix elements."""
FEW_TERMS = 8
FEW_COLUMNS = 32
"""So are products with a short contraction and few columns, or rows: each sum is unrolled."""

NARROW = tuple(map(np.dtype, (np.float32, dtypes.bfloat16, np.float16, np.int8, np.uint8)))
"""The dtypes of operands that kernels convert as they pack them."""

LEAST_ITEM = 1 << 14
"""The multiplications of an item of a batch that is multiplied in place rather than copied."""

IN_ORDER = 2
"""The last number of a product whose order of terms depends on their number alone."""


class Matrices(NamedTuple):
    """Matrices in memory, row-major or transposed; `step` is the batch stride in elements."""

    layout: Layout
    transposed: bool
    step: Dim


def merged(axes: Sequence[tuple[Dim, Dim]]) -> tuple[Dim, Dim] | None:
    """Return size and stride of several axes merged, if their elements are evenly strided."""
    size: Dim = 1
    stride: Dim = 0
    for n, step in axes:
        if n == 1:
            continue
        if size != 1 and stride != n * step:
            return None
        size, stride = size * n, step
    return size, stride


def in_place(
    x: Layout, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> Matrices | None:
    """Return a value as a batch of dense matrices, if its layout allows it."""
    groups = [merged([(x.shape[d], x.strides[d]) for d in axes]) for axes in (batch, rows, columns)]
    item = x.dtype.itemsize
    if None in groups:
        return None
    (count, step), (m, row), (n, column) = groups  # type: ignore[misc]
    if quotient(step, item) is None or (count != 1 and not at_least(step, 0)):
        return None
    step = step // item if count != 1 else 0
    if (n == 1 or column == item) and (m == 1 or row == n * item):
        return Matrices(x, False, step)
    if (m == 1 or row == item) and (n == 1 or column == m * item):
        return Matrices(x, True, step)
    return None


def copied(
    b: Builder, x: Layout, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> Matrices:
    """Return a copy of a value as a batch of dense matrices."""
    made = arranged(b, x, [*batch, *rows, *columns])
    sizes = [x.shape[d] for d in (*rows, *columns)]
    return Matrices(made, False, math.prod(sizes) if batch else 0)


def dot_general(
    b: Builder, out: Out, x: Layout, y: Layout, *, dimension_numbers: Any, **_: Any
) -> Layout:
    """Lower a contraction."""
    (lc, rc), (lb, rb) = dimension_numbers
    dtype = ops.accumulator_dtype(x.dtype, y.dtype, out[0].dtype)
    x_free = kept_axes(len(x.shape), (*lb, *lc))
    y_free = kept_axes(len(y.shape), (*rb, *rc))
    count, m, n, k = (
        math.prod(v.shape[d] for d in axes)
        for v, axes in ((x, lb), (x, x_free), (y, y_free), (x, lc))
    )
    if count * m * n * k == 0:
        made = b.space(b.sizes(out[0]), dtype)
        b.fill(made, 0)
    elif _is_nest(b, dtype, m, n, k):
        made = b.space(b.sizes(out[0]), dtype)
        _nest(b, made, x, y, dimension_numbers)
    elif _is_short(b, dtype, m, n, k):
        made = b.space(b.sizes(out[0]), dtype)
        _written_out(b, made, x, y, dimension_numbers)
    else:
        made = _by_kernel(b, out[0].dtype, x, y, dimension_numbers, x_free, y_free)
    if made.dtype == out[0].dtype:
        return made
    return b.map(out[0], lambda v: convert(v, out[0].dtype), made)


def _by_kernel(
    b: Builder,
    out: Any,
    x: Layout,
    y: Layout,
    dimension_numbers: Any,
    rows: Sequence[int],
    columns: Sequence[int],
) -> Layout:
    """Multiply by a kernel; the result has the dtype of its sums.

    Free axes of one operand that do not merge are a batch, multiplied by the other one as a whole.
    """
    (lc, rc), (lb, rb) = dimension_numbers
    kind, sums = _narrow_kernel(x.dtype, y.dtype, ops.accumulator_dtype(x.dtype, y.dtype, out))
    if kind is None:
        x, y, kind = converted(b, x, sums), converted(b, y, sums), kernel_name(sums)
    pairs = _ordered_pairs(x, lc, y, rc)
    depth, of_right = [d for d, _ in pairs], [d for _, d in pairs]
    left, right = in_place(x, lb, rows, depth), in_place(y, rb, of_right, columns)
    whole = len(rows)
    if left is None and not lb:
        n = math.prod(estimate(y.shape[d]) for d in (*of_right, *columns))
        count, left = _stacked(x, rows, n, lambda batch, rest: in_place(x, batch, rest, depth))
        lb, rows = rows[:count], rows[count:]
    if right is None and not lb and not rb:
        m = math.prod(estimate(x.shape[d]) for d in (*rows, *depth))
        count, right = _stacked(
            y, columns, m, lambda batch, rest: in_place(y, batch, of_right, rest)
        )
        rb, columns = columns[:count], columns[count:]
    batch = [x.shape[d] for d in lb] or [y.shape[d] for d in rb]
    kept = [x.shape[d] for d in rows], [y.shape[d] for d in columns]
    made = b.space([*batch, *kept[0], *kept[1]], sums)
    left = left or copied(b, x, lb, rows, depth)
    right = right or copied(b, y, rb, of_right, columns)
    k = math.prod(x.shape[d] for d in depth)
    gemm(b, kind, left, right, made, (math.prod(batch), *map(math.prod, kept), k))
    if lb or not rb:
        return made
    axes = list(zip(made.shape, made.strides, strict=True))
    return made.with_axes([*axes[len(rb) :][:whole], *axes[: len(rb)], *axes[len(rb) + whole :]])


def _stacked(
    x: Layout,
    free: Sequence[int],
    work: int,
    place: Callable[[Sequence[int], Sequence[int]], Matrices | None],
) -> tuple[int, Matrices | None]:
    """Return how many of the first free axes of an operand are a batch of matrices, and these.

    None if there is no such batch, or if a product of one item, `work` times its rows, is not worth
    a call.
    """
    for count in range(1, len(free)):
        found = place(free[:count], free[count:])
        if found is not None:
            size = math.prod(estimate(x.shape[d]) for d in free[count:])
            return (count, found) if size * work >= LEAST_ITEM else (0, None)
    return 0, None


def gemm(
    b: Builder, kind: str, left: Matrices, right: Matrices, made: Layout, sizes: Sequence[Dim]
) -> None:
    """Call the kernel of batched matrix products."""
    _, m, n, _ = sizes
    numbers = [
        *sizes,
        int(left.transposed),
        int(right.transposed),
        left.step,
        right.step,
        m * n,
        IN_ORDER if b.is_batch_invariant else 0,
    ]
    places = [b.place(left.layout), b.place(right.layout)]
    b.body.append(Kernel(f"kiln_gemm_{kind}", places, [b.place(made)], numbers, b.source))


def _is_nest(b: Builder, dtype: np.dtype[Any], m: Dim, n: Dim, k: Dim) -> bool:
    m, n, k = estimate(m), estimate(n), estimate(k)
    if b.is_batch_invariant and dtype.kind not in "biu":
        return bool(k == 1)
    if k == 1 or m * n * k <= SMALL_WORK or m == n == 1:
        return True
    return min(m, n) == 1 and max(m, n) * k <= SMALL_MATRIX


def _is_short(b: Builder, dtype: np.dtype[Any], m: Dim, n: Dim, k: Dim) -> bool:
    """Tell whether sums are short enough to be unrolled."""
    if is_named(k) or k > FEW_TERMS or dtype.kind == "c":
        return False
    return b.is_batch_invariant or min(estimate(m), estimate(n)) <= FEW_COLUMNS


def _nest(b: Builder, made: Layout, x: Layout, y: Layout, dimension_numbers: Any) -> None:
    kept = b.axes(made.shape)
    sizes = [x.shape[d] for d in dimension_numbers[0][0]]
    summed = b.axes([*made.shape, *sizes])[len(kept) :]
    product = _product(b, made, x, y, dimension_numbers, kept, summed)
    if all(axis.size == 1 for axis in summed):
        b.nest(kept, b.stores(made, kept, product))
        return
    index = b.element(made, kept)
    parts = product if isinstance(product, Complex) else (product,)
    op = "or" if made.dtype == np.bool_ else "add"
    effects = [Reduce(made.buffer, index + i, op, part) for i, part in enumerate(parts)]
    b.nest([*kept, *summed], effects)


def _written_out(b: Builder, made: Layout, x: Layout, y: Layout, dimension_numbers: Any) -> None:
    """Compute each sum as one expression, which is fused with its consumer."""
    kept = b.axes(made.shape)
    sizes = [x.shape[d] for d in dimension_numbers[0][0]]
    total: Any = None
    for numbers in itertools.product(*map(range, sizes)):
        place = [Index(number) for number in numbers]
        term = _product(b, made, x, y, dimension_numbers, kept, place)
        if total is None:
            total = term
        else:
            total = total | term if made.dtype == np.bool_ else total + term
    b.nest(kept, b.stores(made, kept, total))


def _product(
    b: Builder,
    made: Layout,
    x: Layout,
    y: Layout,
    dimension_numbers: Any,
    kept: Sequence[Axis],
    summed: Sequence[Axis | Index],
) -> Scalar:
    """Return a term of the sum at an element, in the dtype of the result."""
    (lc, rc), (lb, rb) = dimension_numbers
    free = iter(kept[len(lb) :])
    places = []
    for v, batch, contracted in ((x, lb, lc), (y, rb, rc)):
        at: dict[int, Any] = dict(zip(batch, kept, strict=False))
        at.update(zip(contracted, summed, strict=True))
        places.append([at[d] if d in at else next(free) for d in range(len(v.shape))])
    left, right = (convert(b.read(v, at), made.dtype) for v, at in zip((x, y), places, strict=True))
    return left & right if made.dtype == np.bool_ else mul(left, right)  # type: ignore[operator]


def _ordered_pairs(
    x: Layout, lc: Sequence[int], y: Layout, rc: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the pairs of contracting axes in an order in which they lie in memory."""
    pairs = list(zip(lc, rc, strict=True))
    for v, side in ((x, 0), (y, 1)):
        order = sorted(pairs, key=lambda pair: -estimate(v.strides[pair[side]]))
        if merged([(v.shape[p[side]], v.strides[p[side]]) for p in order]) is not None:
            return order
    return pairs


def kernel_name(dtype: np.dtype[Any]) -> str:
    """Return the suffix of the names of kernels for a dtype."""
    kind = machine_type(dtype)
    if dtype.kind == "c":
        return f"c{8 * dtype.itemsize}"
    return "bool" if kind == "i1" else kind


def _narrow_kernel(
    x: np.dtype[Any], y: np.dtype[Any], accumulator: np.dtype[Any]
) -> tuple[str | None, np.dtype[Any]]:
    """Return the name of the kernel that converts operands as it packs them, if there is one.

    The dtype is that of its sums: those of 8-bit integers in 32 bits are right modulo 2**32.
    """
    if x in NARROW and y in NARROW and not x == y == accumulator == np.float32:
        integers = x.kind in "iu" and y.kind in "iu"
        if integers and accumulator.kind in "iu" and accumulator.itemsize <= 4:
            return f"{kernel_name(x)}_{kernel_name(y)}", np.dtype(np.int32)
        if not integers and accumulator == np.float32:
            return f"{kernel_name(x)}_{kernel_name(y)}", accumulator
    return None, accumulator


def converted(b: Builder, x: Layout, dtype: np.dtype[Any]) -> Layout:
    """Return a value in another dtype."""
    if x.dtype == dtype:
        return x
    return b.map(ShapedArray(x.shape, dtype), lambda v: convert(v, dtype), x)


LOWERINGS: dict[Operation, Lowering] = {ops.dot_general_p: dot_general}
