"""A jitted function inside a program: a private function, written once for all its calls."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.control.call import jit_p
from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray


def _call(
    b: Builder, out: Sequence[ShapedArray], *xs: Value, jaxpr: Jaxpr, name: str
) -> list[Value]:
    # A function is written for all its callers, and what a collective is depends on the region.
    return b.inline(jaxpr, xs) if b.module.partition.manual else b.call(jaxpr, xs, name)


LOWERINGS: dict[Primitive, Lowering] = {jit_p: _call}
