"""Two axes become one only where no reduction asks for a position along one of them."""

from __future__ import annotations

import pytest

from kiln.engines.native.loop_ir.scalars import Scope
from kiln.engines.native.loop_ir.statements import Axis, Buffer, Index, Nest, Reduce, Role, load
from kiln.engines.native.passes.collapse import collapsed

ROWS, COLUMNS = Axis("i", 4), Axis("j", 3)


def _reduced(op: str, along: Axis | None) -> Nest:
    """Return a nest that reduces a table over both of its axes."""
    table, result = Buffer("x", "f32", 12, Role.INPUT), Buffer("y", "i32", 1, Role.OUTPUT)
    value = load(Scope(), table, Index(0, ((ROWS, 3), (COLUMNS, 1))))
    return Nest([ROWS, COLUMNS], [Reduce(result, Index(), op, value, along)])


@pytest.mark.parametrize("along", [ROWS, COLUMNS])
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_the_axis_of_a_position_is_counted_alone(op: str, along: Axis) -> None:
    assert collapsed(_reduced(op, along)).axes == (ROWS, COLUMNS)


def test_what_is_combined_over_both_is_combined_over_one() -> None:
    assert [axis.size for axis in collapsed(_reduced("max", None)).axes] == [12]
