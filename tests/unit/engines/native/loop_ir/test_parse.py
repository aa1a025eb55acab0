"""Loops and their text: what is printed is read back, and is the same program."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest

import kiln
from kiln.engines.native.building.builder import function_of
from kiln.engines.native.llvm.assembly import host_target
from kiln.engines.native.llvm.functions import module_text
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES
from kiln.engines.native.loop_ir.statements import Function, Nest
from kiln.engines.native.loop_ir.text import number_of, number_text, to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.lowerings import LOWERINGS
from kiln.engines.native.passes.fusion import fuse
from kiln.engines.native.passes.pipeline import PASSES, optimized
from kiln.engines.native.passes.workspace import workspace
from tests.golden.programs import PROGRAMS
from tests.properties.programs import Program, programs
from tests.unit.engines.native.loop_ir.random_loops import operands, program


def code(function: Function) -> str:
    """Return the code of loops."""
    offsets, _ = workspace(function)
    return module_text(function, offsets, host_target())


def read_back(f: Callable[..., Any], *args: Any, checks: str = "") -> None:
    """Print and parse a program after each pass; in the end its code is the same, too."""
    jaxpr = kiln.jit(f).lower(*args).compiler_ir("jaxpr")
    function = function_of(jaxpr, "f", LOWERINGS, frozenset(checks.split()))
    for run in (None, *PASSES.values()):
        if run is not None:
            run(function)
        text = to_text(function)
        again = parse(text)
        check(again, "parsing")
        assert to_text(again) == text
    if not function.sites:
        assert code(again) == code(function)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("checks", ["", "nan index"])
def test_goldens_are_read_back(name: str, checks: str) -> None:
    read_back(PROGRAMS[name].function, *PROGRAMS[name].args, checks=checks)


@pytest.mark.parametrize("seed", range(12))
def test_random_loops_are_read_back(seed: int) -> None:
    read_back(program(seed), *operands(seed))


@hypothesis.given(programs())
@hypothesis.settings(max_examples=25, deadline=None)
def test_random_programs_are_read_back(drawn: Program) -> None:
    read_back(drawn.function, *drawn.inputs())


def test_passes_on_optimized_text_change_nothing_that_is_run_again() -> None:
    """What passes make of a text is what they make of the program."""
    jaxpr = kiln.make_jaxpr(lambda x: kiln.nn.softmax(x * 2 + 1))(np.ones((4, 8), "f4")).jaxpr
    function = function_of(jaxpr, "f", LOWERINGS)
    again = parse(to_text(function))
    assert to_text(optimized(again)) == to_text(optimized(function))


def test_a_pass_tested_from_text() -> None:
    function = parse(
        """
        function f(%i0: f32[8]) -> (%o1: f32[8]) {
          temp %t2: f32[8]
          nest i0 < 8 {
            v0: f32 = %i0[i0]
            v1: f32 = mul v0 2.0:f32
            %t2[i0] = v1
          }
          nest i0 < 8 {
            v0: f32 = %t2[i0*-1 + 7]
            %o1[i0] = v0
          }
        }
        """
    )
    check(function, "parsing")
    fuse(function)
    expected = """
        function f(%i0: f32[8]) -> (%o1: f32[8]) {
          nest i0 < 8 {
            v0: f32 = %i0[i0*-1 + 7]
            v2: f32 = mul v0 2.0:f32
            %o1[i0] = v2
          }
        }
    """
    assert to_text(function).strip() == textwrap.dedent(expected).strip()


def test_constants_of_all_types_keep_their_bits() -> None:
    for dtype, kind in NUMPY_TYPES.items():
        size = kind.itemsize
        patterns = np.random.RandomState(0).randint(0, 256, (300, size)).astype("u1")
        if dtype == "i1":
            patterns &= 1
        for x in patterns.view(kind)[:, 0]:
            assert number_of(number_text(x, dtype), dtype).tobytes() == x.tobytes()


HEAD = "function f(%i0: f32[8]) -> (%o1: f32[8]) {\n"


@pytest.mark.parametrize(
    ("text", "line", "wrong"),
    [
        ("def f", 1, "a text begins with"),
        ("function f(%i0) -> () {\n}", 1, "'%i0' declares no buffer"),
        (HEAD + "dance\n}", 2, "this is not a statement"),
        (HEAD + "nest i0 {\n}", 2, "'i0' is not an axis"),
        (HEAD + "nest i0 < 8 {\n%o1[i1] = 0.0:f32\n}\n}", 3, "the axis i1 is counted by nothing"),
        (HEAD + "nest i0 < 8 {\n%o2[i0] = 0.0:f32\n}\n}", 3, "%o2 is not declared"),
        (HEAD + "nest i0 < 8 {\n%o1[i0] = v0\n}\n}", 3, "'v0' is neither a value above"),
        (HEAD + "nest i0 < 8 {\n%o1[i0] = a b c d e\n}\n}", 3, "neither stores nor reduces"),
        (HEAD + "nest i0 < 8 {\n}\nnest i0 < 9 {\n}\n}", 4, "the axis i0 had 8 iterations before"),
        (HEAD + "loop t < 3 {\n", 3, "'}' is missing"),
        (HEAD + "}\nand more", 3, "nothing follows"),
    ],
)
def test_errors_name_the_line(text: str, line: int, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"line {line} of the text") as found:
        parse(text)
    assert wrong in str(found.value)
    assert len(str(found.value).splitlines()) == 3


def test_a_nest_without_axes_and_names_with_parentheses() -> None:
    text = "function vmap(f)() -> (%o0: i32[1]) {\n  nest {\n    %o0[0] = 7:i32\n  }\n}\n"
    function = parse(text)
    assert function.name == "vmap(f)"
    assert isinstance(function.body[0], Nest)
    assert function.body[0].axes == ()
    assert to_text(function) == text
