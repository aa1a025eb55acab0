"""Primitives that a kernel of the extension computes, with rows divided among threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import Unsupported
from kiln.engines.native.building.kernel_calls import KernelCall, kernel_call
from kiln.engines.native.loop_ir.extents import Grain, estimate, is_named, quotient
from kiln.engines.native.loop_ir.layout import Layout
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray

Out = Sequence[ShapedArray]

THREAD_ELEMENTS = 1 << 14
"""The least number of elements per task."""
TOGETHER = 16
"""Interleaved rows are best processed this many at a time."""


def kernel_results(
    b: Builder,
    primitive: Operation,
    out: Out,
    xs: Sequence[Layout],
    params: dict[str, Any],
    shares: bool = False,
) -> list[Layout] | None:
    """Call the kernel of a primitive and return its results; None if there is none.

    A kernel that `shares` its work among threads itself is called once.
    """
    avals = [ShapedArray(x.shape, x.dtype) for x in xs]
    call = kernel_call(primitive.name, avals, out, params)
    if call is None:
        return None
    made = [b.room(aval) for aval in out]
    if call.rows == 0 or all(x.size == 0 for x in made):
        return made
    if shares:
        b.kernel(call.symbol, xs, made, call.numbers)
    else:
        share_rows(b, call, xs, made)
    return made


def share_rows(b: Builder, call: KernelCall, xs: Sequence[Layout], made: Sequence[Layout]) -> None:
    """Call a kernel of rows, with tasks of enough rows to pay off."""
    largest = max((x.size for x in (*xs, *made)), key=estimate)
    if is_named(call.rows, largest):
        each = quotient(largest, call.rows)
        if each is None:
            each = max(1, estimate(largest) // estimate(call.rows))
        grain = Grain(THREAD_ELEMENTS, each, _together(call))
        b.kernel(call.symbol, xs, made, call.numbers, grain=grain)
        return
    rows = max(1, math.ceil(THREAD_ELEMENTS * call.rows / largest))
    rows = -(-rows // TOGETHER) * TOGETHER if call.rows >= 4 * TOGETHER else rows
    b.kernel(call.symbol, xs, made, call.numbers, grain=rows)


def _together(call: KernelCall) -> int:
    """Return the least number of rows per task, because they are interleaved."""
    if call.symbol not in ("sort", "top_k", "folded"):
        return 1
    _, _, _, inner = call.numbers[:4]
    return 2 * TOGETHER if estimate(inner) >= 4 * TOGETHER else 1


def by_kernel(primitive: Operation) -> Lowering:
    """Return the lowering of a primitive that a kernel computes, or its `expand`."""

    def lower(b: Builder, out: Out, *xs: Layout, **params: Any) -> Any:
        found = kernel_results(b, primitive, out, xs, params)
        if found is None and primitive.has("expand"):
            avals = [ShapedArray(x.shape, x.dtype) for x in xs]
            found = list(b.expansion(primitive, avals, xs, params))
        if found is None:
            raise Unsupported(f"no kernel computes {primitive.name} of these types")
        return found if primitive.multiple else found[0]

    return lower
