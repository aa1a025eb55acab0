"""Rematerialization: the function itself, behind an optimization barrier where it is recomputed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.control.checkpoint import checkpoint_p
from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray

Out = Sequence[ShapedArray]


def _checkpoint(
    b: Builder,
    out: Out,
    *xs: Value,
    jaxpr: Jaxpr,
    prevent_cse: bool,
    differentiated: bool,
    **_: Any,
) -> list[Value]:
    if differentiated and prevent_cse and xs:
        # The barrier prevents CSE of the second forward pass with the first.
        xs = tuple(b.op("stablehlo.optimization_barrier", xs, [x.aval for x in xs]))
    return b.inline(jaxpr, xs)


LOWERINGS: dict[Primitive, Lowering] = {checkpoint_p: _checkpoint}
