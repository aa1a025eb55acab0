"""A jitted function inside a program: a private function, written once for all its calls."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.control.call import jit_p
from kiln.core.primitive import Primitive
from kiln.engines.xla.builder import Builder, Lowering, Value
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray


def _call(
    b: Builder, out: Sequence[ShapedArray], *xs: Value, jaxpr: Jaxpr, name: str
) -> list[Value]:
    return b.call(jaxpr, xs, name)


LOWERINGS: dict[Primitive, Lowering] = {jit_p: _call}
