"""sort and top_k as StableHLO.

XLA's own sort of floats, and of several operands, calls a comparison function for each pair. Keys
of at most 32 bits are therefore sorted packed into 64-bit integers with their positions, for which
XLA has a fast path, and everything is gathered by the positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.elements.elementwise import imaginary_part, is_complex, real_part
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value, type_of
from kiln.ir.sizes.size import is_constant
from kiln.ir.types import ShapedArray
from kiln.ops.reductions import sorting as ops

Out = Sequence[ShapedArray]
_FLOAT32, _UINT32, _UINT64 = (np.dtype(t) for t in (np.float32, np.uint32, np.uint64))
_INT32 = np.dtype(np.int32)
# Below this many elements a plain sort is faster than packing and gathering.
_WORTH_PACKING = 512


def _is_float(dtype: Any) -> bool:
    return dtypes.issubdtype(dtype, np.floating)


def _settled(b: Builder, x: Value) -> Value:
    """Canonicalize zeros and nans of floats, so that their total order is the required one."""
    if not _is_float(x.dtype):
        return x
    x = b.select(b.compare("EQ", x, b.like(0, x)), b.like(0, x), x)
    return b.select(b.compare("NE", x, x), b.like(np.nan, x), x)


def _parts(b: Builder, x: Value) -> list[Value]:
    return [real_part(b, x), imaginary_part(b, x)] if is_complex(x) else [x]


def _less(b: Builder, x: Value, y: Value) -> Value:
    kind = "TOTALORDER" if _is_float(x.dtype) else None
    return b.compare("LT", _settled(b, x), _settled(b, y), kind)


def _lexicographic(b: Builder, xs: Sequence[Value], ys: Sequence[Value]) -> Value:
    *before, last = zip(xs, ys, strict=True)
    found = _less(b, *last)
    for x, y in reversed(before):
        x, y = _settled(b, x), _settled(b, y)
        kind = "TOTALORDER" if _is_float(x.dtype) else None
        tied = b.compare("EQ", x, y, kind)
        found = b.select(tied, found, b.compare("LT", x, y, kind))
    return found


def _compared(b: Builder, xs: Sequence[Value], dimension: int, stable: bool, keys: int) -> Any:
    scalars = [ShapedArray((), x.dtype) for x in xs for _ in range(2)]

    def before(b: Builder, *pairs: Value) -> list[Value]:
        left = [part for x in pairs[: 2 * keys : 2] for part in _parts(b, x)]
        right = [part for x in pairs[1 : 2 * keys : 2] for part in _parts(b, x)]
        return [_lexicographic(b, left, right)]

    attrs = f"dimension = {dimension} : i64, is_stable = {'true' if stable else 'false'}"
    region = b.region(scalars, before)
    return b.op("stablehlo.sort", xs, [x.aval for x in xs], attrs, [region])


def _packed_order(b: Builder, key: Value, dimension: int) -> Value:
    """Return the permutation that sorts a key of at most 32 bits."""
    dtype = key.dtype
    if _is_float(dtype):
        bits = b.bitcast(_settled(b, b.convert(key, _FLOAT32)), _INT32)
        # Negative floats decrease as their bits increase.
        sign = b.apply("shift_right_arithmetic", bits, b.like(31, bits))
        flip = b.apply("and", sign, b.like(0x7FFFFFFF, bits))
        key = b.apply("xor", bits, flip)
    elif dtypes.issubdtype(dtype, np.unsignedinteger):
        key = b.convert(key, _UINT32)
    else:
        key = b.convert(key, _INT32)
    if key.dtype == _INT32:
        key = b.bitcast(key, _UINT32)
        key = b.apply("xor", key, b.like(0x80000000, key))
    wide = b.convert(key, _UINT64)
    high = b.apply("shift_left", wide, b.like(32, wide))
    packed = b.apply("or", high, b.iota(wide.aval, dimension))
    (done,) = _compared(b, [packed], dimension, False, 1)
    return b.convert(b.apply("and", done, b.like(0xFFFFFFFF, done)), _INT32)


def _is_packable(key: Value, dimension: int) -> bool:
    return (
        not is_complex(key)
        and isinstance(key.dtype, np.dtype)
        and dtypes.bit_width(key.dtype) <= 32
        and is_constant(key.shape)
        and math.prod(key.shape) >= _WORTH_PACKING
        and 2 <= key.shape[dimension] < 1 << 31
    )


def _sort(
    b: Builder, out: Out, *xs: Value, dimension: int, is_stable: bool, num_keys: int
) -> list[Value]:
    alone = len(xs) == 1 and not _is_float(xs[0].dtype)
    if alone or num_keys > 1 or not _is_packable(xs[0], dimension):
        return _compared(b, xs, dimension, is_stable, num_keys)  # type: ignore[no-any-return]
    order = _packed_order(b, xs[0], dimension)
    return [b.lower_fun(_take, x, order, axis=dimension) for x in xs]


def _take(x: Any, order: Any, *, axis: int) -> Any:
    return ops.take_along(x, order, axis, unique_indices=True)


def _top_k(b: Builder, out: Out, x: Value, *, k: int, axis: int) -> list[Value]:
    last = [a for a in range(x.ndim) if a != axis] + [axis]
    back = [int(a) for a in np.argsort(last)]
    moved = b.transpose(x, last)
    shape = [*moved.shape[:-1], k]
    types = [moved.aval.with_(shape=shape), ShapedArray(shape, _INT32)]
    written = ", ".join(map(type_of, types))
    found = b.emit(
        f"chlo.top_k({moved}, k = {k}) : {type_of(moved.aval)} -> ({written})",
        types,
    )
    return [b.transpose(v, back) for v in found]


LOWERINGS: dict[Primitive, Lowering] = {ops.sort_p: _sort, ops.top_k_p: _top_k}
