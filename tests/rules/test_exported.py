"""Every case is exported, loaded, and computed by the native engine from its StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import export
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.execution.compilation import compile_jaxpr
from tests.cases.case import Case
from tests.cases.collection import CASES, applied, assert_close, drawn
from tests.cases.known_gaps import KNOWN_GAPS
from tests.rules.support import unsupported

pytest.importorskip("flatbuffers")

TOGETHER = 40
"""Cases exported as one program: exporting costs more than running."""
OF_SEVERAL_DEVICES = ("reshard", "shard_map", "sharding_constraint")
OF_PYTHON = ("debug_callback", "io_callback", "pure_callback", "foreign_call")


def _is_compared(case: Case) -> bool:
    name = case.primitive.name
    return (name, "engines") not in KNOWN_GAPS and name not in (*OF_SEVERAL_DEVICES, *OF_PYTHON)


COMPARED = [case for case in CASES if _is_compared(case)]
GROUPS = [COMPARED[i : i + TOGETHER] for i in range(0, len(COMPARED), TOGETHER)]


def stored(cases: Sequence[Case]) -> tuple[export.Exported, list[np.ndarray], list[Case]]:
    """Return cases as one loaded program, its arguments, and the case of each result."""
    operands = [drawn(case) for case in cases]
    owners: list[Case] = []

    def fun(*args: Any) -> list[Any]:
        given = iter(args)
        outs: list[Any] = []
        owners.clear()
        for case, xs in zip(cases, operands, strict=True):
            outs += applied(case, [next(given) for _ in xs])
            owners.extend([case] * (len(outs) - len(owners)))
        return outs

    flat = [x for xs in operands for x in xs]
    made = export.export(kiln.jit(fun))(*map(from_host, flat))
    return export.deserialize(made.serialize()), flat, owners


def differences(cases: Sequence[Case]) -> list[str]:
    """Compute cases from their StableHLO on the native engine; return what is not their meaning."""
    program, flat, owners = stored(cases)
    arrays = list(map(from_host, flat))
    jaxpr = stage_pure(lambda *xs: program.call(*xs), [aval_of(x) for x in arrays])
    with override(engine="native"):
        found = compile_jaxpr(jaxpr, "cases")(arrays)
    operands = iter(flat)
    wrong, expected = [], []
    for case in cases:
        xs = [next(operands) for _ in case.operands]
        jaxpr = stage_pure(lambda *xs, case=case: applied(case, xs), [aval_of(x) for x in xs])
        with override(engine="reference"):
            expected += compile_jaxpr(jaxpr, "case")(list(map(from_host, xs)))
    for case, a, b in zip(owners, found, expected, strict=True):
        try:
            assert_close(a, b, case.tolerance, case.id)
        except AssertionError as error:
            wrong.append(str(error))
    return wrong


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_stored_cases_have_their_meaning(group: int) -> None:
    # Factorizations, loops and keys take seconds: their expansions are long programs.
    cases = [case for case in GROUPS[group] if unsupported(case, "native") is None]
    assert not differences(cases)


def test_almost_all_cases_are_compared() -> None:
    few = [case.id for case in COMPARED if unsupported(case, "native") is not None]
    assert len(few) < 10, few
    assert len(COMPARED) > 1200
