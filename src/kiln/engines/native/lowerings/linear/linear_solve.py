"""A linear system solved by a user function: that function, inlined."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.control.custom_rules.linear_solve import SolveTuple, linear_solve_p
from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.loop_ir.layout import Layout
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray


def _solve(
    b: Builder,
    out: Sequence[ShapedArray],
    *xs: Layout,
    const_lengths: SolveTuple,
    jaxprs: SolveTuple,
) -> list[Layout]:
    before = const_lengths.matvec + const_lengths.vecmat
    consts = xs[before : before + const_lengths.solve]
    return b.inline(jaxprs.solve, [*consts, *xs[sum(const_lengths) :]])


LOWERINGS: dict[Operation, Lowering] = {linear_solve_p: _solve}
