"""The checker names what is wrong with a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base.errors import CheckError
from kiln.control.call import jit_p
from kiln.ir.analysis.checker import check
from kiln.ir.jaxpr import Eqn, Jaxpr, Literal, Var
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import mul_p, sin_p

AVAL = ShapedArray((3,), np.dtype(np.float32))


def var(aval: ShapedArray = AVAL) -> Var:
    return Var(aval)


def test_a_good_program_passes() -> None:
    a, b, c = var(), var(), var()
    two = Literal(2.0, ShapedArray((), AVAL.dtype, weak_type=True))
    check(Jaxpr([], [a], [Eqn(sin_p, [a], [b], {}), Eqn(mul_p, [b, two], [c], {})], [c, a]))


def wrong_programs() -> list[Any]:
    a, b, other = var(), var(), var()
    short = var(ShapedArray((2,), AVAL.dtype))
    inner = Jaxpr([], [a], [Eqn(sin_p, [other], [b], {})], [b])
    return [
        pytest.param(Jaxpr([], [a, a], [], []), "bound twice", id="input twice"),
        pytest.param(
            Jaxpr([], [a], [Eqn(sin_p, [a], [a], {})], [a]), "bound twice", id="result is an input"
        ),
        pytest.param(
            Jaxpr([], [a], [Eqn(sin_p, [other], [b], {})], [b]), "before it is bound", id="operand"
        ),
        pytest.param(Jaxpr([], [a], [], [other]), "the result uses a variable", id="output"),
        pytest.param(
            Jaxpr([], [a], [Eqn(sin_p, [a], [short], {})], [short]), "its rule says", id="type"
        ),
        pytest.param(
            Jaxpr([], [a], [Eqn(jit_p, [a], [var()], {"jaxpr": inner, "name": "f"})], []),
            "before it is bound",
            id="nested",
        ),
    ]


@pytest.mark.parametrize(("jaxpr", "phrase"), wrong_programs())
def test_wrong_programs(jaxpr: Jaxpr, phrase: str) -> None:
    with pytest.raises(CheckError, match=phrase) as caught:
        check(jaxpr, "some pass")
    assert "after some pass" in str(caught.value)
