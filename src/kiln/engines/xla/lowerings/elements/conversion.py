"""Conversions between dtypes: convert, bitcast, complex numbers and their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.elements.elementwise import (
    imaginary_part,
    is_complex,
    nary,
    real_part,
)
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.types import ShapedArray
from kiln.ops.elements import conversion as ops

Out = Sequence[ShapedArray]


def convert(b: Builder, x: Value, dtype: Any) -> Value:
    """Convert numbers to a dtype: complex to real takes the real part, to boolean is `!= 0`."""
    if x.dtype == dtype:
        return x
    if dtype == np.bool_:
        return b.compare("NE", x, b.like(0, x))
    if is_complex(x) and not dtypes.issubdtype(dtype, np.complexfloating):
        x = real_part(b, x)
    return b.convert(x, dtype)


def _convert(b: Builder, out: Out, x: Value, *, new_dtype: Any, weak_type: bool = False) -> Value:
    return convert(b, x, new_dtype)


def _bitcast(b: Builder, out: Out, x: Value, *, new_dtype: Any) -> Value:
    if x.aval.same_type(out[0]):
        return x
    return b.op("stablehlo.bitcast_convert", [x], out[0])


def _conjugate(b: Builder, out: Out, x: Value) -> Value:
    if not is_complex(x):
        return x
    minus = b.apply("negate", imaginary_part(b, x))
    return b.op("stablehlo.complex", [real_part(b, x), minus], out[0])


LOWERINGS: dict[Primitive, Lowering] = {
    ops.convert_element_type_p: _convert,
    ops.bitcast_convert_type_p: _bitcast,
    ops.real_p: nary("stablehlo.real"),
    ops.imag_p: nary("stablehlo.imag"),
    ops.complex_p: nary("stablehlo.complex"),
    ops.conj_p: _conjugate,
}
