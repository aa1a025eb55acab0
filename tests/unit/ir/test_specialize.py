"""Names replaced by sizes, everywhere in a program."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

from kiln.core.primitive import Primitive
from kiln.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from kiln.ir.sizes.size import Dim, symbol
from kiln.ir.specialize import out_types, specialize, specialize_later
from kiln.ir.types import ShapedArray

n, m = symbol("n"), symbol("m")
f_p = Primitive("f")
F32 = np.dtype(np.float32)


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass(frozen=True)
class Record:
    size: Any
    name: str = "x"


def program(*shape: Dim, **params: Any) -> Jaxpr:
    a, b = Var(ShapedArray(shape, F32)), Var(ShapedArray(shape, F32))
    return Jaxpr([], [a], [Eqn(f_p, [a], [b], params)], [b], name="p", arg_names=["x"])


def test_types_and_parameters() -> None:
    inner = program(n, 2)
    jaxpr = program(
        n,
        3,
        shape=(n, (2 * n, 1)),
        pair=Pair(n, "n"),
        record=Record(n + 1),
        body=inner,
        branches=(inner, program(3)),
        closed=ClosedJaxpr(inner),
        aval=ShapedArray((n,), F32),
        text="n",
    )
    found = specialize(jaxpr, {"n": 4})
    assert (found.name, found.arg_names) == ("p", ("x",))
    assert [v.aval.shape for v in (*found.invars, *found.outvars)] == [(4, 3), (4, 3)]
    assert found.eqns[0].invars[0] is found.invars[0]
    params = found.eqns[0].params
    assert params["shape"] == (4, (8, 1))
    assert params["pair"] == Pair(4, "n")
    assert params["record"] == Record(5)
    assert params["body"].in_avals[0].shape == (4, 2)
    # One program stays one program.
    assert params["branches"][0] is params["body"] is params["closed"].jaxpr
    assert params["branches"][1] is jaxpr.eqns[0].params["branches"][1]
    assert params["aval"].shape == (4,)
    assert params["text"] == "n"
    assert jaxpr.in_avals[0].shape == (n, 3)


def test_what_has_no_names_stays() -> None:
    plain = program(3, shape=(2, 3), body=program(4))
    assert specialize(plain, {"n": 4}) is plain
    other = program(m, shape=(m,))
    assert specialize(other, {"n": 4}) is other


def test_names_may_change_places() -> None:
    found = specialize(program(n, m, shape=(n - m,)), {"n": m, "m": n})
    assert found.in_avals[0].shape == (m, n)
    assert found.eqns[0].params["shape"] == (m - n,)


def test_a_program_may_be_specialized_later() -> None:
    x, y = Var(ShapedArray((n, 3), F32)), Var(ShapedArray((2 * n,), F32))
    program = Jaxpr([], [x], [Eqn(f_p, [x], [y], {"size": n + 1})], [y], name="g", arg_names=["x"])
    later = specialize_later(program, {"n": 4})
    assert isinstance(later, Jaxpr)
    assert [a.shape for a in later.in_avals] == [(4, 3)]
    assert [a.shape for a in later.out_avals] == [(8,)]
    assert (later.name, later.arg_names, later.effects) == ("g", ("x",), program.effects)
    assert later.eqns[0].params == {"size": 5}
    assert later.eqns[0].invars == later.invars
    assert later.eqns[0].outvars == later.outvars
    assert later.constvars == []
    assert str(later) == str(specialize(program, {"n": 4}))
    with pytest.raises(AttributeError):
        later.nothing
    assert out_types(program, {"n": 5})[0].shape == (10,)


def test_a_program_specialized_later_is_specialized_again_inside_another() -> None:
    x = Var(ShapedArray((n, m), F32))
    inner = specialize_later(Jaxpr([], [x], [], [x]), {"n": 2})
    y = Var(ShapedArray((2, m), F32))
    outer = Jaxpr([], [y], [Eqn(f_p, [y], [Var(y.aval)], {"jaxpr": inner})], [y])
    found = specialize(outer, {"m": 7}).eqns[0].params["jaxpr"]
    assert found.in_avals[0].shape == (2, 7)


def test_types_that_are_too_large_are_an_error_at_once() -> None:
    x, y = Var(ShapedArray((n,), F32)), Var(ShapedArray((n, 2**60), F32))
    with pytest.raises(ValueError, match="array is too big"):
        specialize_later(Jaxpr([], [x], [Eqn(f_p, [x], [y], {})], [y]), {"n": 3})
