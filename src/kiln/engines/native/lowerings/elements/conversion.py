"""Conversions between dtypes, and of complex numbers to their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.engines.native.building.builder import Builder, Elementwise, Lowering
from kiln.engines.native.building.element_types import Complex, Scalar, machine_type
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import bits
from kiln.engines.native.lowerings.elements.elementwise import elementwise
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.elements import conversion as ops

Out = Sequence[ShapedArray]


def convert(x: Scalar, dtype: np.dtype[Any]) -> Scalar:
    """Convert a number to a dtype: complex to real takes the real part, to boolean is `!= 0`."""
    kind = machine_type(dtype)
    if isinstance(x, Complex):
        if dtype == np.bool_:
            return x.re.ne(0) | x.im.ne(0)
        if dtype.kind != "c":
            return x.re.convert(kind)
        return Complex(x.re.convert(kind), x.im.convert(kind))
    if dtype.kind == "c":
        return Complex(x.convert(kind), x.scope.constant(0, kind))
    return x.ne(0) if dtype == np.bool_ and x.dtype != "i1" else x.convert(kind)


def _convert(b: Builder, out: Out, x: Layout, *, new_dtype: Any, weak_type: bool = False) -> Layout:
    if x.dtype == out[0].dtype:
        return x
    return b.map(out[0], lambda v: convert(v, out[0].dtype), x)


def _bitcast(b: Builder, out: Out, x: Layout, *, new_dtype: Any) -> Layout:
    kind = machine_type(out[0].dtype)
    if x.dtype == out[0].dtype:
        return x
    narrow = bits(kind) // 8 < x.dtype.itemsize
    if "c" in (x.dtype.kind, out[0].dtype.kind) or "b" in (x.dtype.kind, out[0].dtype.kind):
        return _reread(b, out[0], x)
    if narrow or bits(kind) // 8 > x.dtype.itemsize:
        return _reread(b, out[0], x)
    return b.map(out[0], lambda v: v.bitcast(kind), x)


def _reread(b: Builder, out: ShapedArray, x: Layout) -> Layout:
    """Copy bytes: the same memory as elements of another size."""
    made = b.room(out)
    b.copy(made, b.dense(x))
    return made


def _join(x: Scalar, y: Scalar) -> Scalar:
    return Complex(x, y)  # type: ignore[arg-type]


def _part(number: int) -> Lowering:
    def lower(b: Builder, out: Out, x: Layout) -> Layout:
        offset = number * x.dtype.itemsize // 2
        seen = x.with_axes(list(zip(x.shape, x.strides, strict=True)), offset)
        return Layout(seen.buffer, seen.offset, seen.shape, seen.strides, out[0].dtype)

    return lower


def _conjugate(x: Scalar) -> Scalar:
    return Complex(x.re, -x.im) if isinstance(x, Complex) else x


LOWERINGS: dict[Operation, Lowering] = {
    ops.convert_element_type_p: Elementwise(_convert),
    ops.bitcast_convert_type_p: _bitcast,
    ops.real_p: _part(0),
    ops.imag_p: _part(1),
    ops.complex_p: elementwise(_join),
    ops.conj_p: elementwise(_conjugate),
}
