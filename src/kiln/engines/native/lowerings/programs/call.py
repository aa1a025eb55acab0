"""Functions inside a program, inlined where they are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.control.call import jit_p
from kiln.control.checkpoint import checkpoint_p
from kiln.control.custom_rules.jvp import custom_jvp_call_p
from kiln.control.custom_rules.vjp import custom_vjp_call_p
from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.statements import walk
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops import identity as ops

Out = Sequence[ShapedArray]


def _call(b: Builder, out: Out, *xs: Layout, jaxpr: Jaxpr, **_: Any) -> list[Layout]:
    return b.inline(jaxpr, xs)


def _function(b: Builder, out: Out, *xs: Layout, call_jaxpr: Jaxpr, **_: Any) -> list[Layout]:
    return b.inline(call_jaxpr, xs)


def _checkpoint(
    b: Builder,
    out: Out,
    *xs: Layout,
    jaxpr: Jaxpr,
    prevent_cse: bool,
    differentiated: bool,
    **_: Any,
) -> list[Layout]:
    start = len(b.body)
    results = b.inline(jaxpr, xs)
    if differentiated and prevent_cse:
        region = len(b.recomputed) + 1
        for statement in walk(b.body[start:]):
            b.recomputed.setdefault(statement, region)
    return results


def _same(b: Builder, out: Out, x: Layout, **_: Any) -> Layout:
    return x


def _all_same(b: Builder, out: Out, *xs: Layout) -> list[Layout]:
    return list(xs)


LOWERINGS: dict[Operation, Lowering] = {
    jit_p: _call,
    checkpoint_p: _checkpoint,
    custom_jvp_call_p: _function,
    custom_vjp_call_p: _function,
    ops.name_p: _same,
    ops.optimization_barrier_p: _all_same,
}
