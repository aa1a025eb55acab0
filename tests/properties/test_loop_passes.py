"""Passes over statements preserve what random programs of loops mean, and call no kernel more often."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.statements import Function
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.dead import drop_unread, sink
from kiln.engines.native.passes.invariants import hoist
from kiln.engines.native.passes.numbering import number_values
from tests.properties.exploring import explored
from tests.properties.loop_programs import Meaning, loop_programs, operands

PASSES: tuple[Callable[[Function], None], ...] = (number_values, hoist, sink, drop_unread)
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
