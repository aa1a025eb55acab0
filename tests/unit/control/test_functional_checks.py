"""Numbering the checks of a program, and passing their state through the programs within it.

What programs report is tested in tests/unit/experimental/test_checkify.py.
"""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.control.functional_checks import report_of, run_with_checks, with_checks
from kiln.errors import DivisionByZeroError, FailedCheckError, NaNError

USER = frozenset({FailedCheckError})


def reporting(x):
    kiln.check(x > 0, "x {}", x)
    kiln.check(x < 9, "x {} of {}", x, 9)
    y = lax.fori_loop(0, 3, lambda i, c: (kiln.check(i < 2, "i {}", i), c)[1], x)
    kiln.check(y > 1, "y {}", y)
    kiln.check(y > 2, "small")
    return y


def staged(fun, *args):
    return kiln.make_jaxpr(fun)(*args).jaxpr


def test_checks_are_numbered_in_order_and_share_slots():
    report = report_of(staged(reporting, 1.0), USER)
    said = [message.text(np.zeros(len(types))).split(" ")[0] for message, types in report.checks]
    assert said == ["x", "x", "i", "y", "small"]
    assert [str(aval) for aval in report.avals] == [
        *("int32[]", "float32[]", "float32[]", "int32[]", "int32[]")
    ]


def test_equal_checks_have_one_number():
    def fun(x):
        return [jnp.log(x) for _ in range(3)]

    report = report_of(staged(fun, 1.0), frozenset({NaNError}))
    assert len(report.checks) == 1
    assert not report_of(staged(fun, 1.0), frozenset({DivisionByZeroError})).checks


def test_the_state_of_a_failure_stays():
    jaxpr = staged(reporting, 1.0)
    report = report_of(jaxpr, USER)
    extended = with_checks(jaxpr, report, USER)
    assert with_checks(jaxpr, report, USER) is extended
    assert extended.in_avals[: len(report.avals)] == report.avals
    before = report.passed()
    before[0] = np.int32(2)
    after, outs = run_with_checks(jaxpr, report, USER, before, [np.float32(-1.0)])
    assert int(after[0]) == 2
    assert float(outs[0]) == -1.0
    assert not any(np.any(np.asarray(x)) for x in after[1:])


def test_regions_that_pass_no_state_on_are_refused():
    def fun(b):
        def matvec(x):
            kiln.check(x[0] < 9, "large")
            return 2 * x

        solve = lambda matvec, b: b / 2
        return lax.custom_linear_solve(matvec, b, solve, symmetric=True)

    with pytest.raises(NotImplementedError, match="does not pass the errors of the checks"):
        report_of(staged(fun, np.ones(2, np.float32)), USER)
