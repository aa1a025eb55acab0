"""Every primitive gives the same bits in a library that C calls as in kiln."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import export
from kiln.base.options.config import override
from tests.cases.case import Case
from tests.cases.collection import CASES, applied, drawn
from tests.cases.known_gaps import KNOWN_GAPS
from tests.programs.c_driver import COMPILER, Call, have_same_bits, run_calls
from tests.rules.support import unsupported

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

TOGETHER = 40
"""Cases of one function of a library."""
COMPARED = [case for case in CASES if (case.primitive.name, "engines") not in KNOWN_GAPS]
GROUPS = [COMPARED[i : i + TOGETHER] for i in range(0, len(COMPARED), TOGETHER)]
QUICK = (0, len(GROUPS) // 2)
"""Which are part of `make test`."""


def function_of_cases(cases: Sequence[Case], counts: Sequence[int]) -> Callable[..., list[Any]]:
    """Return a function of the operands of all cases, in turn; its results are those of all."""

    def fun(*args: Any) -> list[Any]:
        given = iter(args)
        outs: list[Any] = []
        for case, count in zip(cases, counts, strict=True):
            outs += applied(case, [next(given) for _ in range(count)])
        return outs

    return fun


def _library(cases: Sequence[Case], name: str, folder: Path) -> tuple[Call, list[Any]] | None:
    """Write a library of some cases; None if their types or effects do not leave the process."""
    operands = [drawn(case) for case in cases]
    flat = [x for xs in operands for x in xs]
    fun = kiln.jit(function_of_cases(cases, [len(xs) for xs in operands]))
    try:
        made = export.library(fun, *flat, name=name, path=folder / name, blas=True, shared=False)
    except NotImplementedError:
        return None
    return Call(Path(made.path), name, {}, [data_of(x) for x in flat]), fun(*flat)


def data_of(x: Any) -> np.ndarray:
    """Return an array, or the integers behind keys."""
    is_key = kiln.dtypes.issubdtype(x.dtype, kiln.dtypes.prng_key)
    return np.asarray(kiln.random.key_data(x) if is_key else x)


def supported(group: Sequence[Case]) -> list[Case]:
    """Return the cases that the native engine compiles."""
    return [case for case in group if unsupported(case, "native") is None]


@pytest.mark.parametrize(
    "group",
    [pytest.param(i, marks=[] if i in QUICK else [pytest.mark.full]) for i in range(len(GROUPS))],
)
def test_cases(group: int, tmp_path: Path) -> None:
    with override(enable_x64=True, engine="native"):
        cases = supported(GROUPS[group])
        if not cases:
            pytest.skip("none is compiled for the host")
        made = [_library(cases, "all", tmp_path)]
        named = [[case.id for case in cases]]
        if made[0] is None:
            # One case that does not leave the process hides the others.
            made = [_library([case], f"case{i}", tmp_path) for i, case in enumerate(cases)]
            named = [[case.id] for case in cases]
        kept = [(pair, names) for pair, names in zip(made, named, strict=True) if pair is not None]
        if not kept:
            pytest.skip("none has types that C has")
        found = run_calls([call for (call, _), _ in kept], tmp_path)
    for results, ((_, expected), names) in zip(found, kept, strict=True):
        assert len(results) == len(expected)
        for i, (x, y) in enumerate(zip(results, expected, strict=True)):
            assert have_same_bits(x, data_of(y)), (names, i, x, y)
