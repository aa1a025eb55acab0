"""The assembler of the extension and LLVM give the same bits for every row of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base.options.config import override
from kiln.core.engines.engine import Program
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.engines.native.compiler import NativeCompiler
from kiln.engines.native.llvm.assembly import host_target
from kiln.engines.native.llvm.generation import LEVEL, assembled
from tests.cases.case import Case
from tests.cases.collection import CASES, applied, drawn

pytestmark = pytest.mark.skipif(
    host_target().name != LEVEL, reason=f"the assembler writes code for {LEVEL}"
)
GROUPS = 12
ANY_RESULT = {"rng_uniform"}
"""Primitives that give other numbers in each call."""
LEFT_TO_LLVM = {"rng_bit_generator", "random_bits"}
"""Primitives of which some programs are not understood."""


def compiled(case: Case, generator: str) -> Any:
    """Return the executable of a case; None if the engine does not compile it."""
    compiler = NativeCompiler()
    jaxpr = stage_pure(lambda *xs: applied(case, xs), [aval_of(x) for x in drawn(case)])
    program = Program(jaxpr, case.primitive.name)
    if compiler.unsupported(program) is not None:
        return None
    with override(code_generator=generator):
        return compiler.compile(program)


def bits(executable: Any, operands: list[np.ndarray]) -> list[np.ndarray]:
    """Return the results of a call, nan as one nan."""
    found = []
    for memory, (dtype, _) in zip(executable(operands), executable.results, strict=True):
        x = np.frombuffer(memoryview(memory), np.uint8).view(dtype).copy()
        if dtype.kind == "c":
            x = x.view(f"f{dtype.itemsize // 2}")
        if dtype.kind not in "biu":
            x[np.isnan(x)] = np.nan
        found.append(x.view(np.uint8))
    return found


@pytest.mark.parametrize(
    "group",
    [pytest.param(i, marks=[pytest.mark.full] if i % 2 else []) for i in range(GROUPS)],
)
def test_every_row(group: int) -> None:
    wrong = []
    for case in CASES[group::GROUPS]:
        mine = compiled(case, "kiln")
        if mine is None or mine.code.function.callbacks or case.primitive.name in ANY_RESULT:
            continue
        if assembled(mine.code.llvm) is None:
            if case.primitive.name not in LEFT_TO_LLVM:
                wrong.append(f"{case.id} is not understood")
            continue
        theirs = compiled(case, "llvm")
        operands = [np.ascontiguousarray(x) for x in drawn(case)]
        pairs = zip(bits(mine, operands), bits(theirs, operands), strict=True)
        if not all(np.array_equal(x, y) for x, y in pairs):
            wrong.append(case.id)
    assert not wrong, wrong
