"""Values and derivatives of public functions agree with JAX's: sums of them with random weights.

One number for the function, `jvp`, `vjp` and the second derivative each: an element that differs
changes it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import kiln
from tests.derivatives.checks import Motion, paired
from tests.derivatives.operands import direction
from tests.derivatives.row import Row
from tests.derivatives.table import PARTS, ROWS, part
from tests.differential.oracle import Case, Topic, ask, compare

TOLERANCES = {64: 1e-8, 32: 1e-4}


def sums(row: Row, lib: Any) -> np.ndarray:
    """Return the function and its derivatives at the first point, each as one number."""
    with lib.enable_x64(True):
        motion = Motion(row, lib)
        back = [direction(x, f"{motion.seed} back {i}") for i, x in enumerate(motion.primals)]
        found = [paired(xs, motion.weights) for xs in (motion.outs, *motion.here[:1])]
        return np.array(found + [paired(xs, back) for xs in motion.here[1:]])


def _case(row: Row) -> Case:
    run = functools.partial(sums, row)
    return Case(row.module, row.id, run, TOLERANCES[row.bits])


ASKED = ("numpy", "numpy.linalg", "numpy.fft", "lax", "lax.linalg")
"""The modules about which JAX was asked."""
OTHERWISE = {
    "symmetrize_input=False": "JAX's rules read the other triangle, too",
    "sign(x) (complex)": "JAX's is zero, though the direction of a complex number moves",
    "mode='linear_ramp'": "JAX's do not move with `end_values`",
    "qr(W, pivoting=True)": "JAX's are those of a square matrix",
}
"""Parts of names of rows where JAX's derivatives are not those of its function, and kiln's are."""
TOPIC = Topic("derivatives", [_case(row) for row in ROWS if row.module in ASKED])


def _differences(number: int) -> list[str]:
    wrong = []
    for case in (_case(row) for row in part(number) if row.module in ASKED):
        expected = TOPIC.answers().get(case.id)
        if expected is None:
            wrong.append(f"{case.name}: no answer is stored; run `make oracle`")
        elif not expected.error:
            difference = compare(ask(case, kiln), expected, case.tolerance)
            if bool(difference) != any(text in case.name for text in OTHERWISE):
                wrong.append(f"{case.name}: {difference or 'is no exception any more'}")
    return wrong


def test_a_fixed_slice() -> None:
    assert _differences(0) == []


@pytest.mark.full
@pytest.mark.parametrize("number", range(PARTS))
def test_all_rows(number: int) -> None:
    assert _differences(number) == []
