"""The text of jaxprs, to the letter."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from kiln.base.dtypes import float0
from kiln.core.primitive import Primitive
from kiln.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from kiln.ir.printing.printer import eqn_to_text, letters, lines_of, literal
from kiln.ir.sizes.size import symbol
from kiln.ir.types import ShapedArray

F32, I32 = np.dtype(np.float32), np.dtype(np.int32)


def var(*shape: Any, dtype: Any = F32) -> Var:
    return Var(ShapedArray(shape, dtype))


def number(value: float) -> Literal:
    return Literal(value, ShapedArray((), F32, weak_type=True))


def eqn(kind: str, invars: list[Any], outvars: list[Var], /, **params: Any) -> Eqn:
    return Eqn(Primitive(kind), invars, outvars, params)


def chain(length: int, *shape: int) -> Jaxpr:
    """Return a program of `length` negations."""
    variables = [var(*shape) for _ in range(length + 1)]
    eqns = [eqn("neg", [a], [b]) for a, b in itertools.pairwise(variables)]
    return Jaxpr([], variables[:1], eqns, variables[-1:])


def test_the_example_of_the_documentation() -> None:
    a, b, c, d = (var() for _ in range(4))
    eqns = [eqn("log", [a], [b]), eqn("log", [number(2.0)], [c]), eqn("div", [b, c], [d])]
    assert str(Jaxpr([], [a], eqns, [d])) == (
        "{ lambda ; a:f32[]. let\n"
        "  b:f32[] = log a\n"
        "  c:f32[] = log 2.0\n"
        "  d:f32[] = div b c\n"
        "in (d,) }"
    )


def test_empty_programs() -> None:
    a, b = var(3, dtype=I32), var()
    assert str(Jaxpr([], [a], [], [a])) == "{ lambda ; a:i32[3]. let in (a,) }"
    assert str(Jaxpr([], [], [], [])) == "{ lambda ; . let in () }"
    assert str(Jaxpr([], [a, b], [], [b, b])) == "{ lambda ; a:i32[3] b:f32[]. let in (b, b) }"
    assert str(Jaxpr([], [], [], [number(1.0)])) == "{ lambda ; . let in (1.0,) }"


def test_constants_stand_before_the_semicolon() -> None:
    c, x, y = var(1, 1, dtype=I32), var(3), var(3)
    text = str(Jaxpr([c], [x], [eqn("gather", [x, c], [y])], [y]))
    assert text == "{ lambda a:i32[1,1]; b:f32[3]. let c:f32[3] = gather b a in (c,) }"


def test_short_programs_are_one_line() -> None:
    one = "{ lambda ; a:f32[]. let b:f32[] = neg a; c:f32[] = neg b in (c,) }"
    assert str(chain(2)) == one
    three = str(chain(3))
    assert three.count("\n") == 4
    assert "; c" not in three
    # The line is 80 columns at most.
    assert len(str(chain(2, 100))) == len(one) + 9 == 75
    assert len(str(chain(2, 1000000)).splitlines()) == 4


def test_unused_results_have_no_name() -> None:
    a, b, c = var(2), var(2), var(2)
    text = str(Jaxpr([], [a], [eqn("sort", [a, a], [b, c])], [c]))
    assert "_:f32[2] b:f32[2] = sort a a in (b,)" in text


def test_an_equation_without_results() -> None:
    a = var()
    assert "let print a in" in str(Jaxpr([], [a], [eqn("print", [a], [])], []))


def test_params_are_sorted_and_the_name_comes_first() -> None:
    a, b = var(2), var(2)
    text = eqn_to_text(eqn("call", [a], [b], zeta=1, alpha=(0,), name="f", kind=np.dtype("int32")))
    assert text == "a:f32[2] = call[name=f alpha=(0,) kind=int32 zeta=1] b"


def test_functions_are_printed_by_name_and_private_params_are_not() -> None:
    text = eqn_to_text(eqn("call", [var()], [var()], fun=len, _hidden=1))
    assert text == "a:f32[] = call[fun=len] b"


def test_long_params_go_on_lines_of_their_own() -> None:
    text = eqn_to_text(eqn("gather", [var(3)], [var(3)], first="x" * 40, second="y" * 40))
    assert text == (f"a:f32[3] = gather[\n  first={'x' * 40}\n  second={'y' * 40}\n] b")


def test_nested_programs_are_in_braces_and_go_on_counting() -> None:
    x, y, after = var(3), var(3), var(3)
    call = eqn("jit", [x], [y], name="f", jaxpr=chain(4, 3))
    text = str(Jaxpr([], [x], [call, eqn("sin", [y], [after])], [after]))
    assert text == (
        "{ lambda ; a:f32[3]. let\n"
        "  b:f32[3] = jit[\n"
        "    name=f\n"
        "    jaxpr={ lambda ; c:f32[3]. let\n"
        "      d:f32[3] = neg c\n"
        "      e:f32[3] = neg d\n"
        "      f:f32[3] = neg e\n"
        "      g:f32[3] = neg f\n"
        "    in (g,) }\n"
        "  ] a\n"
        "  h:f32[3] = sin b\n"
        "in (h,) }"
    )


def test_several_programs_are_listed() -> None:
    x, y = var(3), var(3)
    cond = eqn("cond", [x], [y], branches=(chain(1, 3), ClosedJaxpr(chain(1, 3))))
    assert str(Jaxpr([], [x], [cond], [y])).splitlines()[2:6] == [
        "    branches=(",
        "      { lambda ; c:f32[3]. let d:f32[3] = neg c in (d,) }",
        "      { lambda ; e:f32[3]. let f:f32[3] = neg e in (f,) }",
        "    )",
    ]


def test_many_inputs_are_wrapped() -> None:
    inputs = [var() for _ in range(28)]
    lines = str(Jaxpr([], inputs, [], [inputs[27]])).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("{ lambda ; a:f32[] b:f32[]")
    assert lines[1].startswith("    ")
    assert lines[-1] == "in (bb,) }"


def test_dimensions_and_dtypes() -> None:
    n = symbol("n")
    x = var(n, 3, 2 * n + 1, dtype=np.dtype(np.bool_))
    assert str(Jaxpr([], [x], [], [])) == "{ lambda ; a:bool[n,3,2*n+1]. let in () }"


def test_names_run_like_numbers() -> None:
    found = [letters(i) for i in (0, 25, 26, 27, 51, 52, 26 * 26 - 1, 26 * 26)]
    assert found == ["a", "z", "ba", "bb", "bz", "ca", "zz", "baa"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2.0"),
        (3, "3"),
        (True, "True"),
        (1j, "1j"),
        (np.float32(2), "2.0"),
        (np.int8(-1), "-1"),
        (np.float32(np.nan), "nan"),
        (np.float32(-np.inf), "-inf"),
        (np.float16(0.1), "0.0999755859375"),
        (np.asarray(2.5, np.float32), "2.5"),
        (np.zeros(3), "[...]"),
    ],
)
def test_literals_print_bare(value: Any, text: str) -> None:
    assert literal(value) == text


def test_a_literal_that_holds_nothing() -> None:
    assert literal(np.zeros((), float0)) == "0"


def test_lines_know_their_equations() -> None:
    x, y, z, unused = var(3), var(3), var(3), var(3)
    inner = chain(4, 3)
    call = eqn("jit", [x], [y], name="f", jaxpr=inner, zeta=1)
    last = eqn("sin", [y], [z])
    program = Jaxpr([], [x], [call, last, eqn("cos", [y], [unused])], [z])
    lines = lines_of(program)
    assert "\n".join(text for text, _ in lines) == str(program)
    owners = [owner for _, owner in lines]
    # The head; the call, its name and the head of its program; that program; the rest of the call.
    assert owners[:4] == [None, call, call, call]
    assert owners[4:8] == inner.eqns
    assert owners[8:-3] == [call] * len(owners[8:-3])
    # Results that nothing reads have no name to be found by.
    assert owners[-3:] == [last, None, None]


def test_short_programs_have_a_line_for_each_equation() -> None:
    program = chain(2)
    assert [owner for _, owner in lines_of(program)] == [None, *program.eqns, None]
    outer = eqn("jit", [var()], [var()], jaxpr=program)
    lines = lines_of(Jaxpr([], outer.invars, [outer], outer.outvars))
    assert [owner for _, owner in lines] == [None, *[outer] * (len(lines) - 2), None]
    assert sum("neg" in text for text, _ in lines) == 1
