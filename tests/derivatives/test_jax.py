"""Values and derivatives of public functions agree with JAX's: sums of them with random weights.

One number for the function, `jvp`, `vjp` and the second derivative each: an element that differs
changes it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import kiln
from tests.derivatives.checks import Motion, paired, primals_and_tangents, product
from tests.derivatives.operands import direction
from tests.derivatives.row import Row, known_names
from tests.derivatives.table import PARTS, ROWS, part
from tests.differential.oracle import Answer, Case, Topic, ask, compare

TOLERANCES = {64: 1e-8, 32: 1e-4}
TOGETHER = 30
"""Rows of one program when JAX is asked: compiling each operation by itself takes hours."""


def sums(row: Row, lib: Any) -> np.ndarray:
    """Return the function and its derivatives at the first point, each as one number."""
    # The draws of samplers are JAX's in its order of random bits only.
    with lib.enable_x64(True), lib.threefry_partitionable(True):
        motion = Motion(row, lib)
        return np.array([paired(xs, ys) for xs, ys in _pairs(motion, motion.here)])


def _pairs(motion: Motion, derivatives: Sequence[list[Any]]) -> Iterator[tuple[Any, Any]]:
    back = [direction(x, f"{motion.seed} back {i}") for i, x in enumerate(motion.primals)]
    for i, xs in enumerate([motion.outs, *derivatives]):
        yield xs, motion.weights if i < 2 else back


def sums_together(rows: Sequence[Row], lib: Any) -> list[np.ndarray | None]:
    """Return what `sums` does for many rows, by one program; None where a row has no such program.

    Where a library compiles no program for all, each half has one.
    """

    def traced(row: Row, both: Sequence[Any]) -> list[Any] | None:
        try:
            motion = Motion(row, lib)
            motion.outs = motion.fun(*both[: len(motion.primals)])
            pairs = _pairs(motion, motion.derivatives(*both))
            return [product(xs, ys) for xs, ys in pairs]
        except Exception:  # noqa: BLE001
            # Alone it is asked in another way, and says what is wrong.
            return None

    def program(given: Sequence[Sequence[Any]]) -> list[list[Any] | None]:
        return [traced(row, both) for row, both in zip(rows, given, strict=True)]

    for row in rows:
        # Kept for all rows, so not values of this program.
        known_names(lib, row.module)
    with lib.enable_x64(True), lib.disable_jit(False):
        try:
            found = lib.jit(program)([primals_and_tangents(row) for row in rows])
        except Exception:  # noqa: BLE001
            half = len(rows) // 2
            parts = (rows[:half], rows[half:]) if half else ()
            return [xs for few in parts for xs in sums_together(few, lib)] or [None]
        return [None if xs is None else np.array([float(x) for x in xs]) for xs in found]


def _asked_together(lib: Any, cases: Sequence[Case]) -> Iterator[tuple[str, Answer]]:
    rows = {case.id: row for case, row in zip(TOPIC.cases, ROWS, strict=True)}
    for i in range(0, len(cases), TOGETHER):
        group = cases[i : i + TOGETHER]
        answers = sums_together([rows[case.id] for case in group], lib)
        for case, found in zip(group, answers, strict=True):
            if found is not None:
                yield case.id, ask(dataclasses.replace(case, run=lambda _, x=found: x), lib)


def _case(row: Row) -> Case:
    run = functools.partial(sums, row)
    return Case(row.module, row.id, run, TOLERANCES[row.bits])


OTHERWISE = {
    "symmetrize_input=False": "JAX's rules read the other triangle, too",
    "sign(x) (complex)": "JAX's is zero, though the direction of a complex number moves",
    "mode='linear_ramp'": "JAX's do not move with `end_values`",
    "qr(W, pivoting=True)": "JAX's are those of a square matrix",
    "scipy.linalg: cholesky(": "JAX's rules read the other triangle, too",
    "scipy.linalg: cho_factor(": "JAX's rules read the other triangle, too",
    "cho_solve(cho_factor(": "JAX's rules read the other triangle, too",
    "assume_a='pos'": "JAX's rules read the other triangle, too",
    "eigh_tridiagonal": "JAX's are those of the steps of a bisection",
    "expm(s * 4)": "JAX's value has eight digits, as mpmath says",
    "exp1(p)": "JAX's second derivative is nan",
    "spence(p)": "JAX's second derivative, and that in reverse, are nan",
    "poisson: entropy": "JAX's tangent is nan",
}
"""Parts of names of rows where JAX's derivatives are not those of its function, and kiln's are."""
TOPIC = Topic("derivatives", map(_case, ROWS), _asked_together)


def _differences(number: int) -> list[str]:
    wrong = []
    for case in map(_case, part(number)):
        expected = TOPIC.answers().get(case.id)
        if expected is None:
            wrong.append(f"{case.name}: no answer is stored; run `make oracle`")
        elif not expected.error:
            difference = compare(ask(case, kiln), expected, case.tolerance)
            if bool(difference) != any(text in case.name for text in OTHERWISE):
                wrong.append(f"{case.name}: {difference or 'does not raise any more'}")
    return wrong


def test_a_fixed_slice() -> None:
    assert _differences(0) == []


@pytest.mark.full
@pytest.mark.parametrize("number", range(PARTS))
def test_all_rows(number: int) -> None:
    assert _differences(number) == []
