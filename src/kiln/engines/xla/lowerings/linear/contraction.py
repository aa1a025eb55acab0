"""dot_general as StableHLO: operands are converted to the dtype of accumulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.elements.conversion import convert
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value, type_of
from kiln.engines.xla.stablehlo.text import int_list
from kiln.ir.types import ShapedArray
from kiln.ops.linear import contraction as ops

Out = Sequence[ShapedArray]


def precision_list(precision: ops.PrecisionPair | None) -> str:
    """Return the precision of both operands as text: `[DEFAULT, HIGHEST]`."""
    pair = precision or (ops.Precision.DEFAULT, ops.Precision.DEFAULT)
    return f"[{', '.join(p.name for p in pair)}]"


def _dot_general(
    b: Builder,
    out: Out,
    x: Value,
    y: Value,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
) -> Value:
    (lc, rc), (lb, rb) = dimension_numbers
    dtype = ops.accumulator_dtype(x.dtype, y.dtype, out[0].dtype)
    x, y = convert(b, x, dtype), convert(b, y, dtype)
    result = out[0].with_(dtype=dtype)
    batching = f"batching_dims = {int_list(lb)} x {int_list(rb)}, " if lb else ""
    types = ", ".join(type_of(v.aval) for v in (x, y))
    product = b.emit(
        f"stablehlo.dot_general {x}, {y}, {batching}"
        f"contracting_dims = {int_list(lc)} x {int_list(rc)}, "
        f"precision = {precision_list(precision)} : ({types}) -> {type_of(result)}",
        result,
    )
    return convert(b, product, out[0].dtype)


LOWERINGS: dict[Primitive, Lowering] = {ops.dot_general_p: _dot_general}
