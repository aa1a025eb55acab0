"""Reductions as nests. Narrow floats are summed and multiplied in 32 bits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from kiln.base import dtypes
from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import Complex, Unsupported, is_narrow, numpy_type
from kiln.engines.native.loop_ir.extents import estimate, is_named
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, Value, bits, is_float
from kiln.engines.native.loop_ir.statements import Axis, Index, Reduce, Store
from kiln.engines.native.lowerings.elements import complex_arithmetic
from kiln.engines.native.lowerings.elements.elementwise import elementwise
from kiln.engines.native.lowerings.reductions.folding import folded
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.ops.reductions import reduction as ops
from kiln.ops.reductions.product import reduce_prod_p
from kiln.ops.shape import reduce_sum_p

Out = Sequence[ShapedArray]

FEW = 4
"""Reductions of at most this many numbers are unrolled,"""
MANY = 16
"""if there are this many results."""

_OF_COMPLEX = {
    "mul": complex_arithmetic.product,
    "max": complex_arithmetic.maximum,
    "min": complex_arithmetic.minimum,
}


_FOLDED: dict[str, Operation] = {"add": reduce_sum_p, "mul": reduce_prod_p}


def _reduce(op: str) -> Lowering:
    def lower(b: Builder, out: Out, x: Layout, *, axes: Any) -> Layout:
        kind = x.buffer.dtype
        wide = "f32" if is_narrow(kind) and op in ("add", "mul") else kind
        over = {"add": "or", "mul": "and", "max": "or", "min": "and"}
        name = over.get(op, op) if kind == "i1" else op
        is_complex = x.dtype.kind == "c"
        is_short = not is_complex and _is_short([x.shape[d] for d in axes])
        if b.is_batch_invariant and op in _FOLDED and x.size != 0 and axes and not is_short:
            if is_float(wide) and (op == "add" or not is_complex):
                return folded(b, _FOLDED[op], out[0], x, axes, wide)
        made = b.space(b.sizes(out[0]), numpy_type(wide) if wide != kind else out[0].dtype)
        points = b.axes(x.shape)
        kept = [axis for d, axis in enumerate(points) if d not in axes]
        value = b.read(x, points)
        index = b.element(made, kept)
        if isinstance(value, Complex) and op != "add":
            start = identity(op, kind)
            b.fill(made, complex(start, 0 if op == "mul" else start))
            old = b.read(made, kept)
            assert isinstance(old, Complex)
            both = _OF_COMPLEX[op](old, value)
            order = [*kept, *[axis for axis in points if axis not in kept]]
            b.nest(order, b.stores(made, kept, both), ordered=True)
            return made
        if isinstance(value, Complex):
            effects = [Reduce(made.buffer, index + i, op, part) for i, part in enumerate(value)]
        elif is_short and (b.is_batch_invariant or estimate(made.size) >= MANY):
            b.nest(kept, [Store(made.buffer, index, _written_out(b, x, axes, kept, name, wide))])
            return made if wide == kind else b.map(out[0], lambda v: v.convert(kind), made)
        else:
            effects = [Reduce(made.buffer, index, name, value.convert(wide))]
        if x.size == 0:
            b.fill(made, identity(name, wide))
        b.nest(points, effects)
        if wide == kind:
            return made
        return b.map(out[0], lambda v: v.convert(kind), made)

    return lower


def _is_short(sizes: Sequence[Dim]) -> bool:
    return not is_named(*sizes) and 1 < math.prod(sizes) <= FEW


def _written_out(
    b: Builder, x: Layout, axes: Sequence[int], kept: Sequence[Axis], op: str, wide: str
) -> Value:
    """Return a reduction of a few numbers as an expression, which is fused with its consumer."""
    rest = iter(kept)
    places: list[Any] = [range(n) if d in axes else [next(rest)] for d, n in enumerate(x.shape)]
    total = b.scope.constant(0, wide) if op == "add" else None
    for place in itertools.product(*places):
        value = b.read(x, [Index(p) if isinstance(p, int) else p for p in place])
        assert isinstance(value, Value)
        value = value.convert(wide)
        total = value if total is None else b.scope.op(op, wide, total, value)
    assert total is not None
    return total


def identity(op: str, kind: str) -> Any:
    """Return the identity of a reduction's operation."""
    dtype = numpy_type(kind)
    match op:
        case "add" | "or" | "xor":
            return 0
        case "mul":
            return 1
        case "and":
            return ~dtype.type(0)
        case "max":
            return ops.lowest(dtype)
        case _:
            return ops.highest(dtype)


def _position(op: str) -> Lowering:
    def lower(b: Builder, out: Out, x: Layout, *, axes: Any, index_dtype: Any) -> Layout:
        (axis,) = axes
        made = b.room(out[0])
        points = b.axes(x.shape)
        kept = [p for d, p in enumerate(points) if d != axis]
        value = b.read(x, points)
        if isinstance(value, Complex):
            raise Unsupported(f"{op} of complex numbers has no native lowering")
        if value.dtype == "i1":
            value = value.convert("u8")
        if x.shape[axis] == 1:
            b.fill(made, 0)
        else:
            b.nest(points, [Reduce(made.buffer, b.element(made, kept), op, value, points[axis])])
        return made

    return lower


def _reduced_precision(x: Value, *, exponent_bits: int, mantissa_bits: int) -> Value:
    """Round as the NumPy rule in `ops/reductions/reduction.py` does, on the bits."""
    info = dtypes.finfo(NUMPY_TYPES[x.dtype])
    kind = f"u{bits(x.dtype)}"
    pattern = x.bitcast(kind)
    found = pattern
    dropped = int(info.nmant) - mantissa_bits
    if dropped > 0:
        last_kept = (pattern >> dropped) & 1
        rounded = pattern + ((1 << (dropped - 1)) - 1) + last_kept
        found = (rounded >> dropped) << dropped
    if exponent_bits < int(info.nexp):
        mask = ((1 << int(info.nexp)) - 1) << int(info.nmant)
        bias, reduced_bias = (1 << (int(info.nexp) - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        highest = (bias + reduced_bias) << int(info.nmant)
        lowest = (bias - reduced_bias) << int(info.nmant)
        exponent = found & mask
        sign = found & (1 << (bits(x.dtype) - 1))
        above, below = exponent.gt(highest), exponent.le(lowest)
        found = below.select(sign, above.select(sign | mask, found))
    return x.ne(x).select(x, found.bitcast(x.dtype))


LOWERINGS: dict[Operation, Lowering] = {
    ops.reduce_precision_p: elementwise(_reduced_precision),
    reduce_sum_p: _reduce("add"),
    reduce_prod_p: _reduce("mul"),
    ops.reduce_max_p: _reduce("max"),
    ops.reduce_min_p: _reduce("min"),
    ops.reduce_and_p: _reduce("and"),
    ops.reduce_or_p: _reduce("or"),
    ops.reduce_xor_p: _reduce("xor"),
    ops.argmax_p: _position("argmax"),
    ops.argmin_p: _position("argmin"),
}
