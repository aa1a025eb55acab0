"""What tracing found, and what runs it."""

from __future__ import annotations

import numpy as np

from kiln.base.options.config import override
from kiln.base.tree import tree_structure
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage_pure
from kiln.execution.placement import NO_REQUEST, PlacementRequest
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray
from kiln.jit.entry import Entry, Recording
from kiln.jit.history import History
from kiln.jit.signatures.explain import Record, only
from kiln.ops.elements.elementwise import mul

TREE = tree_structure((0,))
AVAL = ShapedArray((3,), np.dtype(np.float32))
DONATING = PlacementRequest(donated=(1,))


def product() -> Jaxpr:
    return stage_pure(lambda x, y: [mul(x, y)], [AVAL, AVAL])


def recording() -> Recording:
    return Recording(product(), [from_host(np.ones(3, np.float32))], TREE, "f")


def test_a_placer_is_made_once_for_equal_requests() -> None:
    made = recording()
    plain = made.placer_for(NO_REQUEST, False, ())
    donating = made.placer_for(DONATING, False, ())
    assert made.placer_for(PlacementRequest(donated=(1,)), False, ()) is donating is not plain
    assert made.new_placer(NO_REQUEST, False, ()) is not plain
    with override(engine="reference"):
        plain.compiled(None)
        donating.compiled(None)
    assert len(made.programs) == 2


def test_the_same_program_over_other_constants() -> None:
    made = recording()
    other = made.with_consts([from_host(np.zeros(3, np.float32))])
    assert other.jaxpr is made.jaxpr and other.placers is made.placers
    assert float(other.consts[0][0]) == 0 and float(made.consts[0][0]) == 1


def test_constants_are_copied_where_they_may_be_donated() -> None:
    made = recording()
    assert made.consts_for(NO_REQUEST)[0] is made.consts[0]
    (copy,) = made.consts_for(DONATING)
    assert copy is not made.consts[0]
    np.testing.assert_array_equal(copy, made.consts[0])


def test_what_a_first_run_took_is_noted_once_in_a_record() -> None:
    made, history = recording(), History()
    record = made.record = Record("f", "f", only("first call"), "here")
    entry = Entry(made, made.placer_for(NO_REQUEST, False, ()), history)
    entry.note_preparation(0.5)
    entry.note_preparation(0.25)
    assert history.compile_seconds == 0.75
    assert record.compile_seconds == 0.5
    assert made.record is None
