"""Stateful random number generators, as XLA's operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.types import ShapedArray
from kiln.ops.random import generators as ops

Out = Sequence[ShapedArray]
_STATE = ShapedArray((2,), ops.UINT64)
_PAIRS = ShapedArray((2, 2), ops.UINT32)


def _rng_bit_generator(
    b: Builder,
    out: Out,
    key: Value,
    *,
    shape: Any,
    dtype: Any,
    algorithm: ops.RandomAlgorithm,
) -> Sequence[Value]:
    if 0 in shape:
        return [key, b.constant(np.zeros(shape, dtype), out[1])]
    halves = key.dtype == ops.UINT32
    if halves:
        key = b.op("stablehlo.bitcast_convert", [b.reshape(key, _PAIRS.shape)], _STATE)
    wide = dtype == ops.UINT64
    drawn = ShapedArray(tuple(shape), ops.UINT64 if wide else ops.UINT32)
    name = algorithm.name.removeprefix("RNG_")
    after, bits = b.op(
        "stablehlo.rng_bit_generator",
        [key],
        [_STATE, drawn],
        f"rng_algorithm = #stablehlo<rng_algorithm {name}>",
    )
    if halves:
        after = b.reshape(b.op("stablehlo.bitcast_convert", [after], _PAIRS), (4,))
    return [after, b.convert(bits, dtype)]


def _rng_uniform(b: Builder, out: Out, low: Value, high: Value, *, shape: Any) -> Value:
    sizes = b.constant(np.array(shape, np.int64), ShapedArray((len(shape),), np.dtype(np.int64)))
    distribution = "rng_distribution = #stablehlo<rng_distribution UNIFORM>"
    return b.op("stablehlo.rng", [low, high, sizes], out[0], distribution)


LOWERINGS: dict[Primitive, Lowering] = {
    ops.rng_bit_generator_p: _rng_bit_generator,
    ops.rng_uniform_p: _rng_uniform,
}
