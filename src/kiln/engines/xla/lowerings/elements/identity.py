"""Operations that return their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.types import ShapedArray
from kiln.ops import identity as ops


def _optimization_barrier(b: Builder, out: Sequence[ShapedArray], *xs: Value) -> list[Value]:
    return b.op("stablehlo.optimization_barrier", xs, out) if xs else []


def _name(b: Builder, out: Sequence[ShapedArray], x: Value, **_: Any) -> Value:
    return x


LOWERINGS: dict[Primitive, Lowering] = {
    ops.optimization_barrier_p: _optimization_barrier,
    ops.name_p: _name,
}
