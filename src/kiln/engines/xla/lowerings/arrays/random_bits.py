"""Random bits as StableHLO: the unrolled rounds of Threefry-2x32, which XLA fuses into one loop.

Other primitives on keys are lowered by their `expand`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.elements.elementwise import imaginary_part, real_part
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.types import ShapedArray
from kiln.ops.random import random_bits, threefry
from kiln.ops.random.threefry import UINT32

Out = Sequence[ShapedArray]
_PART = np.dtype(np.float64)
"""Each half of a key of four words, which is only moved."""


def _threefry2x32(b: Builder, out: Out, k0: Value, k1: Value, x0: Value, x1: Value) -> list[Value]:
    shape = out[0].shape
    mixed = b.apply("xor", b.apply("xor", k0, k1), b.like(threefry.PARITY, k0))
    keys = [b.fill(key, shape) for key in (k0, k1, mixed)]
    first = b.apply("add", b.fill(x0, shape), keys[0])
    second = b.apply("add", b.fill(x1, shape), keys[1])
    for i in range(5):
        for distance in threefry.ROTATIONS[i % 2]:
            first = b.apply("add", first, second)
            left = b.apply("shift_left", second, b.like(distance, second))
            right = b.apply("shift_right_logical", second, b.like(32 - distance, second))
            second = b.apply("xor", first, b.apply("or", left, right))
        first = b.apply("add", first, keys[(i + 1) % 3])
        second = b.apply("add", second, keys[(i + 2) % 3])
        second = b.apply("add", second, b.like(i + 1, second))
    return [first, second]


def _wrap(b: Builder, out: Out, data: Value, **_: object) -> Value:
    words = out[0].dtype.words
    if words == 1:
        return b.op("stablehlo.reshape", [data], out[0])
    if words == 2:
        return b.op("stablehlo.bitcast_convert", [data], out[0])
    *outer, _count = data.shape
    paired = b.reshape(data, (*outer, 2, 2))
    parts = b.op("stablehlo.bitcast_convert", [paired], ShapedArray((*outer, 2), _PART))
    key = [
        b.reshape(b.slice(parts, [0] * len(outer) + [i], [*outer, i + 1]), outer) for i in range(2)
    ]
    return b.op("stablehlo.complex", key, out[0])


def _unwrap(b: Builder, out: Out, keys: Value) -> Value:
    words = keys.dtype.words
    if words == 1:
        return b.op("stablehlo.reshape", [keys], out[0])
    if words == 2:
        return b.op("stablehlo.bitcast_convert", [keys], out[0])
    pair = ShapedArray((*keys.shape, 2), UINT32)
    halves = [
        b.op("stablehlo.bitcast_convert", [part(b, keys)], pair)
        for part in (real_part, imaginary_part)
    ]
    return b.concatenate(halves, len(keys.shape))


LOWERINGS: dict[Primitive, Lowering] = {
    threefry.threefry2x32_p: _threefry2x32,
    random_bits.random_wrap_p: _wrap,
    random_bits.random_unwrap_p: _unwrap,
}
