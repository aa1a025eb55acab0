"""Compiled derivatives agree with eager ones, on each engine; many rows make one program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import kiln
from kiln.base.options.config import override
from tests.derivatives.checks import EXACT, KINDS, Motion, difference
from tests.derivatives.row import Row
from tests.derivatives.table import PARTS, part

ENGINES = ("native", "xla", "reference")
BY_VALUES = ("numpy.extract",)
"""Functions whose results have shapes that depend on values: none when compiled."""
TOGETHER = 36
"""Rows compiled as one program: compiling costs more than running."""


def disagreements(rows: Sequence[Row], engine: str) -> list[str]:
    """Run the derivatives of rows as one program; return what differs from eager results."""
    with kiln.enable_x64(True):
        motions = [Motion(row, kiln) for row in rows]
        eager = [m.here for m in motions]

        def together(given: Sequence[Sequence[Any]]) -> list[list[list[Any]]]:
            return [m.derivatives(*both) for m, both in zip(motions, given, strict=True)]

        with override(engine=engine):
            compiled = kiln.jit(together)([m.both() for m in motions])
        wrong = []
        for m, found, expected in zip(motions, compiled, eager, strict=True):
            for kind, xs, ys in zip(KINDS, found, expected, strict=False):
                lines = difference(xs, ys, EXACT[m.row.bits], f"jit of {kind} on {engine}")
                wrong += [f"{m.row.id}: {line}" for line in lines]
    return wrong


@pytest.mark.parametrize("engine", ENGINES)
def test_a_fixed_slice(engine: str) -> None:
    assert disagreements(part(0)[:TOGETHER], engine) == []


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("number", range(PARTS))
def test_all_rows(number: int, engine: str) -> None:
    rows = [row for row in part(number) if row.name not in BY_VALUES]
    groups = [rows[i : i + TOGETHER] for i in range(0, len(rows), TOGETHER)]
    assert [line for group in groups for line in disagreements(group, engine)] == []
