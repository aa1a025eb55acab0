"""A jitted function inside a program: a private function, emitted once for all its calls."""

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
    # A function is shared by all its callers, but collectives depend on the region: inline it.
    return b.inline(jaxpr, xs) if b.module.partition.manual else b.call(jaxpr, xs, name)


LOWERINGS: dict[Primitive, Lowering] = {jit_p: _call}
