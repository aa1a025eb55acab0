"""fft as StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.elements.conversion import convert
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value, type_of
from kiln.engines.xla.stablehlo.text import int_list
from kiln.ir.types import ShapedArray
from kiln.ops.linear import fft as ops

Out = Sequence[ShapedArray]


def _fft(b: Builder, out: Out, x: Value, *, fft_type: ops.FftType, fft_lengths: Any) -> Value:
    if 0 in (*x.shape, *out[0].shape):
        return b.constant(np.zeros(out[0].shape, out[0].dtype), out[0])
    if not fft_lengths:
        return convert(b, x, out[0].dtype)
    return b.emit(
        f"stablehlo.fft {x}, type = {fft_type.name}, length = {int_list(fft_lengths)} : "
        f"({type_of(x.aval)}) -> {type_of(out[0])}",
        out[0],
    )


LOWERINGS: dict[Primitive, Lowering] = {ops.fft_p: _fft}
