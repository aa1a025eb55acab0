"""A linear system solved by a user function: that function, inlined."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.control.custom_rules.linear_solve import SolveTuple, linear_solve_p
from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.types import ShapedArray


def _solve(
    b: Builder,
    out: Sequence[ShapedArray],
    *xs: Value,
    const_lengths: SolveTuple,
    jaxprs: SolveTuple,
) -> list[Value]:
    before = const_lengths.matvec + const_lengths.vecmat
    consts = xs[before : before + const_lengths.solve]
    return b.inline(jaxprs.solve, [*consts, *xs[sum(const_lengths) :]])


LOWERINGS: dict[Primitive, Lowering] = {linear_solve_p: _solve}
