"""The assembler of the extension and LLVM give the same bits for every row of the table.

For each microarchitecture level that this processor runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base.options.config import override
from kiln.core.engines.engine import Program
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.engines.native import compiler as compilers
from kiln.engines.native.compiler import NativeCompiler
from kiln.engines.native.llvm import assembly, generation, target
from kiln.engines.native.llvm.generation import assembled
from tests.cases.case import Case
from tests.cases.collection import CASES, applied, drawn
from tests.unit._runtime.assembler.running import LEVELS_HERE, needs_level

pytestmark = needs_level
GROUPS = 12
ANY_RESULT = {"rng_uniform"}
"""Primitives that give other numbers in each call."""


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


def groups() -> list[Any]:
    """Return parts of the table for each level; of older ones `make test` runs fewer."""
    return [
        pytest.param(
            level, i, marks=[pytest.mark.full] if i % (3 if level == LEVELS_HERE[-1] else 6) else []
        )
        for level in LEVELS_HERE
        for i in range(GROUPS)
    ]


@pytest.mark.parametrize(("level", "group"), groups())
def test_every_row(level: str, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (compilers, generation, assembly):
        monkeypatch.setattr(module, "host_target", lambda: target.named(level))
    wrong = []
    for case in CASES[group::GROUPS]:
        mine = compiled(case, "kiln")
        if mine is None or mine.code.function.callbacks or case.primitive.name in ANY_RESULT:
            continue
        if assembled(mine.code.llvm) is None:
            wrong.append(f"{case.id} is not understood")
            continue
        theirs = compiled(case, "llvm")
        operands = [np.ascontiguousarray(x) for x in drawn(case)]
        pairs = zip(bits(mine, operands), bits(theirs, operands), strict=True)
        if not all(np.array_equal(x, y) for x, y in pairs):
            wrong.append(case.id)
    assert not wrong, wrong
