"""Names replaced by sizes, everywhere in a program."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from kiln.core.primitive import Primitive
from kiln.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from kiln.ir.sizes import Dim, symbol
from kiln.ir.specialise import specialise
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
    found = specialise(jaxpr, {"n": 4})
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
    assert specialise(plain, {"n": 4}) is plain
    other = program(m, shape=(m,))
    assert specialise(other, {"n": 4}) is other


def test_names_may_change_places() -> None:
    found = specialise(program(n, m, shape=(n - m,)), {"n": m, "m": n})
    assert found.in_avals[0].shape == (m, n)
    assert found.eqns[0].params["shape"] == (m - n,)
