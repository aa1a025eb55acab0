"""Equations that are computed where they are used keep their places in the user's code."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.engines.native.building.delayed import Delayed
from kiln.engines.native.loop_ir.layout import dense
from kiln.engines.native.loop_ir.scalars import Scope

LAYOUT = dense(None, (4,), np.dtype("f4"))
VALUE = Scope().constant(1.0, "f32")


def delayed(source: Any, work: float, *parts: Delayed) -> Delayed:
    count = 1 + sum(part.equations for part in parts)
    return Delayed(LAYOUT, (), VALUE, source, work, parts, count)


def test_parts_come_first_in_their_order() -> None:
    left = delayed("left", 2.0, delayed("below", 1.0))
    made = delayed("own", 5.0, left, delayed("right", 3.0))
    assert list(made.lines().items()) == [
        *(("below", 1.0), ("left", 2.0), ("right", 3.0), ("own", 5.0)),
    ]
    assert made.equations == 4


def test_work_of_one_place_adds_up() -> None:
    part = delayed("line", 1.0)
    # A value may be an operand twice: it counts as often as it is written.
    assert delayed("line", 4.0, part, part).lines() == {"line": 6.0}


def test_long_chains_need_no_recursion() -> None:
    made = delayed(0, 1.0)
    for _ in range(5000):
        made = delayed(0, 1.0, made)
    assert made.lines() == {0: 5001.0}
