"""A plan gives what the meanings give, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.core.arrays.array import from_host, host_value
from kiln.core.engines.engine import make_plan
from kiln.core.meaning import meaning
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from tests.cases.case import Case
from tests.cases.collection import CASES, applied, drawn

HOSTED = [
    case
    for case in CASES
    if case.primitive.on_host and not case.primitive.region and case.primitive.evaluate is None
]


def assert_same_bits(found: Any, expected: Any, what: str) -> None:
    """Compare dtype, shape and every bit."""
    a, b = np.asarray(found), np.asarray(expected)
    assert (a.dtype, a.shape) == (b.dtype, b.shape), what
    assert a.tobytes() == b.tobytes(), f"{what}\n{a}\n{b}"


@pytest.mark.parametrize("case", HOSTED, ids=[case.id for case in HOSTED])
def test_plans_give_what_the_meanings_give(case: Case) -> None:
    operands = [from_host(x) for x in drawn(case)]
    jaxpr = stage_pure(lambda *xs: applied(case, xs), [aval_of(x) for x in operands])
    plan = make_plan(jaxpr, list)
    if plan is None:
        hosted = [e.primitive.runs_on_host([v.aval for v in e.invars]) for e in jaxpr.eqns]
        assert not all(hosted) or any(
            not isinstance(v.aval.dtype, np.dtype) for eqn in jaxpr.eqns for v in eqn.outvars
        )
        return
    with np.errstate(all="ignore"):
        expected = meaning(jaxpr, [np.asarray(x) for x in operands])
    for a, b in zip(plan(*operands), expected, strict=True):
        assert_same_bits(host_value(a), b, case.id)
