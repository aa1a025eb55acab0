"""Passes over statements preserve what random programs of loops mean, and call no kernel more often."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import numpy as np

from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.statements import Function
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.carries import remove_copies
from kiln.engines.native.passes.dead import drop_unread, sink
from kiln.engines.native.passes.invariants import hoist
from kiln.engines.native.passes.numbering import number_values
from kiln.engines.native.passes.sequential import interchange as interchanging
from kiln.engines.native.passes.sequential.counters import count_by_axes
from kiln.engines.native.passes.sequential.independent import run_at_once
from kiln.engines.native.passes.sequential.interchange import interchange
from kiln.engines.native.passes.sequential.recurrences import carry_elements
from kiln.engines.native.passes.sequential.straight_line import straighten
from tests.properties.exploring import explored
from tests.properties.loop_programs import Meaning, loop_programs, operands


def interchange_by(elements: int) -> Callable[[Function], None]:
    """Return the pass that interchanges loops of any length, for so many elements at a time."""

    def run(function: Function) -> None:
        with patch.multiple(
            interchanging,
            BLOCK_BYTES=8 * elements,
            ALONE_BYTES=8 * elements,
            FEWEST_BLOCKS=1,
            FEWEST_ITERATIONS=2,
        ):
            interchange(function)

    run.__name__ = f"interchange by {elements}"
    return run


PASSES: tuple[Callable[[Function], None], ...] = (
    number_values,
    hoist,
    sink,
    drop_unread,
    count_by_axes,
    run_at_once,
    interchange_by(2),
    interchange_by(3),
    straighten,
    remove_copies,
    carry_elements,
)
CHOICES = ((0, 0, 0), (1, 0, 1), (0, 1, 1))


@explored(loop_programs(), few=60, many=20000)
def test_each_pass_alone_and_after_the_others(text: str) -> None:
    before = parse(text)
    check(before, "the text")
    alone = [(run.__name__, parse(text)) for run in PASSES]
    for run, (_, function) in zip(PASSES, alone, strict=True):
        run(function)
    together = parse(text)
    for run in PASSES:
        run(together)
    for choice in CHOICES:
        expected = Meaning(before, operands(choice))
        for name, function in [*alone, ("all", together)]:
            check(function, name)
            found = Meaning(function, operands(choice))
            for x, y in zip(found.results, expected.results, strict=True):
                np.testing.assert_array_equal(x, y, f"{name}:\n{to_text(function)}")
            assert found.calls["dear"] <= expected.calls["dear"], name
            drawn = "kiln_draw_counters"
            assert found.calls[drawn] == expected.calls[drawn], name
