"""Random bits: the rounds of Threefry-2x32, unrolled on scalars.

Everything else about keys is in the primitives' `expand`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import Complex, Scalar, real
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import Value
from kiln.engines.native.loop_ir.statements import Index
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.random import random_bits, threefry

Out = Sequence[ShapedArray]


def hashed(k0: Value, k1: Value, x0: Value, x1: Value) -> tuple[Value, Value]:
    """Hash the counter (x0, x1) under the key (k0, k1), all u32."""
    keys = (k0, k1, k0 ^ k1 ^ threefry.PARITY)
    first, second = x0 + k0, x1 + k1
    for i in range(5):
        for distance in threefry.ROTATIONS[i % 2]:
            first = first + second
            second = first ^ ((second << distance) | (second >> (32 - distance)))
        first = first + keys[(i + 1) % 3]
        second = second + keys[(i + 2) % 3] + (i + 1)
    return first, second


def words(x: Value) -> tuple[Value, Value]:
    """Return the low and the high word of a u64."""
    return x.convert("u32"), (x >> 32).convert("u32")


def joined(low: Value, high: Value) -> Value:
    """Return the u64 of two words."""
    return low.convert("u64") | (high.convert("u64") << 32)


def _threefry2x32(b: Builder, out: Out, *operands: Layout) -> list[Layout]:
    made = [b.room(aval) for aval in out]
    axes = b.axes(made[0].shape)
    pair = hashed(*[real(b.read(x, axes)) for x in operands])
    effects = [b.stores(to, axes, word) for to, word in zip(made, pair, strict=True)]
    b.nest(axes, [store for stores in effects for store in stores])
    return made


def _wrap(b: Builder, out: Out, data: Layout, **_: object) -> Layout:
    made = b.room(out[0])
    axes = b.axes(made.shape)
    given = [real(b.read(data, [*axes, Index(i)])) for i in range(out[0].dtype.words)]
    b.nest(axes, b.stores(made, axes, _key(given)))
    return made


def _key(given: list[Value]) -> Scalar:
    """Return the element of a key's words: four are the bits of a complex number."""
    if len(given) == 1:
        return given[0]
    parts = [joined(*given[i : i + 2]) for i in range(0, len(given), 2)]
    return parts[0] if len(parts) == 1 else Complex(*[part.bitcast("f64") for part in parts])


def _words_of_key(key: Scalar) -> list[Value]:
    if isinstance(key, Complex):
        return [word for part in key for word in words(part.bitcast("u64"))]
    return [key] if key.dtype == "u32" else [*words(key)]


def _unwrap(b: Builder, out: Out, keys: Layout) -> Layout:
    made = b.room(out[0])
    axes = b.axes(keys.shape)
    found = _words_of_key(b.read(keys, axes))
    effects = [b.stores(made, [*axes, Index(i)], word) for i, word in enumerate(found)]
    b.nest(axes, [store for stores in effects for store in stores])
    return made


LOWERINGS: dict[Operation, Lowering] = {
    threefry.threefry2x32_p: _threefry2x32,
    random_bits.random_wrap_p: _wrap,
    random_bits.random_unwrap_p: _unwrap,
}
