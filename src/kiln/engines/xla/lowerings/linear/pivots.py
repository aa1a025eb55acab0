"""Permutations from the pivots of factorizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.engines.xla.stablehlo.builder import Builder, Value
from kiln.ir.types import ShapedArray
from kiln.ops.counting import broadcasted_iota
from kiln.ops.elements.elementwise import eq, select
from kiln.ops.shape import broadcast_in_dim, reduce_sum

_INT = np.dtype(np.int32)


def permutation_of(b: Builder, pivots: Value, size: int) -> Value:
    """Emit the permutation for pivots: exchanges of each row with a later one."""
    count = pivots.shape[-1]
    shape = (*pivots.shape[:-1], size)
    step = b.constant(0, ShapedArray((), _INT))
    start = b.iota(ShapedArray(shape, _INT), len(shape) - 1)

    def body(b: Builder, i: Value, chosen: Value, order: Value) -> list[Value]:
        order = b.lower_fun(_exchanged, i, chosen, order)
        return [b.apply("add", i, b.like(1, i)), chosen, order]

    loop = b.while_loop(
        lambda b, i, *_: b.compare("LT", i, b.like(count, i)), body, [step, pivots, start]
    )
    return loop[2]


def _exchanged(i: Any, pivots: Any, order: Any) -> Any:
    """Exchange elements i and pivots[i] of permutations."""
    last = len(order.shape) - 1
    steps = eq(broadcasted_iota(_INT, pivots.shape, last), i)
    other = reduce_sum(select(steps, pivots, _INT.type(0)), (last,))
    place = broadcasted_iota(_INT, order.shape, last)
    here = eq(place, i)
    there = eq(place, broadcast_in_dim(other, order.shape, range(last)))
    mine = reduce_sum(select(here, order, _INT.type(0)), (last,))
    theirs = reduce_sum(select(there, order, _INT.type(0)), (last,))
    mine, theirs = (broadcast_in_dim(x, order.shape, range(last)) for x in (mine, theirs))
    return select(here, theirs, select(there, mine, order))
