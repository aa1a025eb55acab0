"""Code for aarch64: it is valid object code that calls the extension only. It is not run here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kiln
from kiln import _runtime
from kiln.core.engines.engine import Program, engine
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.engines.native.llvm.assembly import assemble, disassemble
from kiln.engines.native.llvm.functions import module_text
from kiln.engines.native.llvm.target import LEVELS
from kiln.engines.native.passes.workspace import workspace
from tests.cases.collection import CASES, applied, drawn
from tests.rules.support import unsupported
from tests.unit.engines.native.executables.test_portable import PROGRAMS
from tests.unit.engines.native.object_file import undefined_symbols

TARGET = LEVELS["aarch64"]
MACHINE = (183).to_bytes(2, "little")
"""The number of the processor in an ELF object."""
FROM_THE_SYSTEM = {"memcpy", "memmove", "memset"}


def text_of(function: Callable[..., list[Any]], operands: list[Any]) -> str:
    jaxpr = stage_pure(function, [aval_of(x) for x in operands])
    loops = engine("native").compiler.loops(Program(jaxpr, "program"))
    offsets, _ = workspace(loops)
    return module_text(loops, offsets, TARGET)


def assert_is_code(text: str) -> None:
    image = assemble(text, TARGET)
    assert image[:5] == b"\x7fELF\x02"
    assert image[18:20] == MACHINE
    called = set(undefined_symbols(image)) - FROM_THE_SYSTEM
    assert called <= set(_runtime.native_symbols())


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    function, operands = PROGRAMS[name]
    assert_is_code(text_of(lambda *xs: kiln.tree.leaves(function(*xs)), operands))


def test_vectors_are_those_of_neon() -> None:
    function, operands = PROGRAMS["elementwise"]
    code = disassemble(text_of(lambda x: [function(x)], operands), TARGET)
    assert "fmla" in code
    assert ".4s" in code


@pytest.mark.parametrize(
    "every", [pytest.param(40, id="few"), pytest.param(1, id="all", marks=pytest.mark.full)]
)
def test_cases_of_primitives(every: int) -> None:
    cases = [case for case in CASES[::every] if unsupported(case, "native") is None]
    assert len(cases) > 20
    for case in cases:
        operands = list(drawn(case))
        assert_is_code(text_of(lambda *xs, case=case: applied(case, xs), operands))
