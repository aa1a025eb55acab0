"""Every engine computes what the reference engine computes: the meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.execution.compilation import compile_jaxpr
from tests.cases.case import Case
from tests.cases.collection import CASES, applied, assert_close, drawn
from tests.cases.known_gaps import KNOWN_GAPS
from tests.rules.support import unsupported

TOGETHER = 40
"""Cases compiled as one program: compiling costs more than running."""
COMPARED = [case for case in CASES if (case.primitive.name, "engines") not in KNOWN_GAPS]
GROUPS = [COMPARED[i : i + TOGETHER] for i in range(0, len(COMPARED), TOGETHER)]


def assert_same_zeros(found: Any, expected: Any, what: str) -> None:
    """Compare the signs of zeros."""
    a, b = np.asarray(found), np.asarray(expected)
    if a.dtype.kind not in "bui":
        zero = (a == 0) & (b == 0)
        np.testing.assert_array_equal(np.signbit(a.real)[zero], np.signbit(b.real)[zero], what)


def disagreements(cases: Sequence[Case], engine: str) -> list[str]:
    """Run cases as one program; return what differs from the meaning."""
    operands = [drawn(case) for case in cases]

    flat = [x for xs in operands for x in xs]
    owners: list[Case] = []

    def fun(*args: Any) -> list[Any]:
        given = iter(args)
        outs: list[Any] = []
        for case, xs in zip(cases, operands, strict=True):
            outs += applied(case, [next(given) for _ in xs])
            owners.extend([case] * (len(outs) - len(owners)))
        return outs

    jaxpr = stage_pure(fun, [aval_of(x) for x in flat])
    arrays = list(map(from_host, flat))
    with override(engine="reference"):
        expected = compile_jaxpr(jaxpr, "cases")(arrays)
    with override(engine=engine):
        found = compile_jaxpr(jaxpr, "cases")(arrays)
    wrong = []
    for case, a, b in zip(owners, found, expected, strict=True):
        try:
            assert_close(a, b, case.tolerance, case.id)
            if case.name.startswith("edges"):
                assert_same_zeros(a, b, case.id)
        except AssertionError as error:
            wrong.append(str(error))
    return wrong


@pytest.mark.parametrize("engine", ["xla", "native"])
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_engines_agree_with_the_meaning(group: int, engine: str) -> None:
    is_partial = engine == "native"
    reasons = [unsupported(case, engine) if is_partial else None for case in GROUPS[group]]
    cases = [case for case, reason in zip(GROUPS[group], reasons, strict=True) if reason is None]
    if not cases:
        pytest.skip("; ".join({str(reason) for reason in reasons}))
    try:
        wrong = disagreements(cases, engine)
    except Exception:  # noqa: BLE001
        # One case that does not compile hides the others: find it.
        wrong = []
        for case in cases:
            try:
                wrong += disagreements([case], engine)
            except Exception as error:  # noqa: BLE001
                wrong.append(f"{case.id}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
