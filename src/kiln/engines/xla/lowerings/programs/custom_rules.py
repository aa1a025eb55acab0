"""Functions with custom rules, which have been applied by now: only the function remains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.control.custom_rules.jvp import custom_jvp_call_p
from kiln.control.custom_rules.vjp import custom_lin_p, custom_vjp_call_p, forward_mode
from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray

Out = Sequence[ShapedArray]


def _function(b: Builder, out: Out, *xs: Value, call_jaxpr: Jaxpr, **_: Any) -> list[Value]:
    return b.inline(call_jaxpr, xs)


def _custom_lin(b: Builder, out: Out, *xs: Value, bwd: Any, **_: Any) -> list[Value]:
    raise forward_mode(bwd)


LOWERINGS: dict[Primitive, Lowering] = {
    custom_jvp_call_p: _function,
    custom_vjp_call_p: _function,
    custom_lin_p: _custom_lin,
}
