"""Random programs give in libraries, called from C, the bits that they give in kiln.

All memory of the C program ends at a page that must not be touched.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import kiln
from kiln import export
from tests.programs.c_driver import COMPILER, Call, have_same_bits, run_calls
from tests.programs.library_cases import REFUSED
from tests.properties.exploring import explored
from tests.properties.programs import ANY, Program, programs

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

TOGETHER = 12
"""Programs that one C program calls."""


def _flat(program: Program) -> Callable[..., list[Any]]:
    """Return a jitted function whose results are arrays, not trees."""
    function = program.function
    return kiln.jit(lambda *args: kiln.tree.leaves(function(*args)))


def _call(program: Program, name: str, folder: Path) -> Call | None:
    function, inputs = _flat(program), program.inputs()
    try:
        made = export.library(
            function, *inputs, name=name, path=folder / name, blas=True, shared=False
        )
    except NotImplementedError as error:
        if not any(reason in str(error) for reason in REFUSED):
            raise
        return None
    return Call(Path(made.path), name, {}, [np.asarray(x) for x in inputs])


@explored(st.lists(programs(ANY), min_size=TOGETHER, max_size=TOGETHER), few=1, many=50)
def test_libraries_have_the_bits_of_kiln(drawn: list[Program]) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        calls = {i: _call(program, f"p{i}", folder) for i, program in enumerate(drawn)}
        kept = {i: call for i, call in calls.items() if call is not None}
        results = run_calls(list(kept.values()), folder) if kept else []
    for i, found in zip(kept, results, strict=True):
        for x, y in zip(found, _flat(drawn[i])(*drawn[i].inputs()), strict=True):
            assert have_same_bits(x, np.asarray(y)), (drawn[i], x, y)
