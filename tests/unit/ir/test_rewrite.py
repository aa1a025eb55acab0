"""Dead code, dropped inputs, structural identity."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.ir.effects import DEBUG, named_axis
from kiln.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from kiln.ir.rewrite import (
    canonical,
    canonical_for_engines,
    drop_inputs,
    eliminate_dead_code,
    params_key,
)
from kiln.ir.types import ShapedArray

AVAL = ShapedArray((3,), np.dtype(np.float32))
f_p, g_p = Primitive("f"), Primitive("g")


def var() -> Var:
    return Var(AVAL)


def eqn(primitive: Primitive, invars: list[Any], outvars: list[Var], **params: Any) -> Eqn:
    return Eqn(primitive, invars, outvars, params)


def test_dead_code_goes_and_inputs_stay() -> None:
    a, b, c, d, e = (var() for _ in range(5))
    jaxpr = Jaxpr([], [a, b], [eqn(f_p, [a], [c]), eqn(g_p, [b], [d]), eqn(g_p, [d], [e])], [c])
    clean, used = eliminate_dead_code(jaxpr)
    assert [e.primitive for e in clean.eqns] == [f_p]
    assert used == [True, False]
    assert clean.invars == [a, b]
    assert drop_inputs(clean, used).invars == [a]


def test_unused_outputs_are_dropped() -> None:
    a, b, c = var(), var(), var()
    jaxpr = Jaxpr([], [a, b], [eqn(f_p, [a], [c])], [c, b], arg_names=["x", "y"])
    clean, used = eliminate_dead_code(jaxpr, [False, True])
    assert (clean.eqns, clean.outvars, used) == ([], [b], [False, True])
    assert drop_inputs(clean, used).arg_names == ("y",)


def test_effects_keep_an_equation() -> None:
    a, b = var(), var()
    for effect, kept in ((DEBUG, 1), (named_axis("i"), 0)):
        noisy = Eqn(f_p, [a], [b], {}, frozenset({effect}))
        clean, used = eliminate_dead_code(Jaxpr([], [a], [noisy], []))
        assert (len(clean.eqns), used) == (kept, [bool(kept)])


def test_a_primitive_may_drop_its_own_dead_results() -> None:
    class Pair(Primitive):
        multiple = True

        @staticmethod
        def live(eqn: Eqn, used: list[bool]) -> Eqn:
            return eqn.with_(invars=eqn.invars[:1], outvars=eqn.outvars[:1], params={"cut": True})

    a, b, c, d = (var() for _ in range(4))
    clean, used = eliminate_dead_code(Jaxpr([], [a, b], [eqn(Pair("pair"), [a, b], [c, d])], [c]))
    assert clean.eqns[0].params == {"cut": True}
    assert used == [True, False]


def program(**params: Any) -> Jaxpr:
    a, b = var(), var()
    return Jaxpr([], [a], [eqn(f_p, [a], [b], **params)], [b])


def literal_program(value: Any) -> Jaxpr:
    b = var()
    return Jaxpr([], [], [eqn(f_p, [Literal(value, AVAL.with_(shape=()))], [b])], [b])


def test_equal_structure_is_equal_whatever_the_variables() -> None:
    assert canonical(program()) == canonical(program())
    assert canonical(program(k=1)) != canonical(program(k=2))
    assert canonical(program(k=1)) != canonical(program(k=1.0))
    assert canonical(program(k=True)) != canonical(program(k=1))
    hash(canonical(program(k=program())))


def test_zeros_have_signs_and_nan_equals_itself() -> None:
    assert canonical(literal_program(0.0)) != canonical(literal_program(-0.0))
    assert canonical(literal_program(np.nan)) == canonical(literal_program(np.nan))
    assert params_key({"k": 0.0}) != params_key({"k": -0.0})
    assert params_key({"k": float("nan")}) == params_key({"k": float("nan")})


def test_literals_of_the_same_bytes_differ_by_type() -> None:
    types = [ShapedArray((), np.dtype(name)) for name in ("float32", "int32", "uint32")]
    alike = [Jaxpr([], [], [], [Literal(0, aval)]) for aval in types]
    for one, other in itertools.combinations(map(canonical, alike), 2):
        assert one != other
    weak = Jaxpr([], [], [], [Literal(0.0, types[0].with_(weak_type=True))])
    assert canonical(weak) != canonical(alike[0])
    assert canonical_for_engines(weak) == canonical_for_engines(alike[0])


def test_which_operand_matters() -> None:
    a, b, c = var(), var(), var()
    first = Jaxpr([], [a, b], [eqn(f_p, [a], [c])], [c])
    second = Jaxpr([], [a, b], [eqn(f_p, [b], [c])], [c])
    assert canonical(first) != canonical(second)


def test_nested_programs_count_by_structure() -> None:
    assert canonical(program(jaxpr=program())) == canonical(program(jaxpr=program()))
    assert canonical(program(jaxpr=program())) != canonical(program(jaxpr=program(k=1)))
    inside = (program(), program(k=1))
    assert params_key({"branches": inside}) == params_key({"branches": (program(), program(k=1))})


def test_closed_programs_count_by_the_identity_of_constants() -> None:
    jaxpr, value = program(), [1.0]
    one, same, other = (ClosedJaxpr(jaxpr, [v]) for v in (value, value, [1.0]))
    assert params_key({"k": one}) == params_key({"k": same})
    assert params_key({"k": one}) != params_key({"k": other})


def test_arrays_count_by_content_and_the_unhashable_by_identity() -> None:
    assert params_key({"k": np.arange(3)}) == params_key({"k": np.arange(3)})
    assert params_key({"k": np.arange(3)}) != params_key({"k": np.arange(3.0)})
    value = {"a": 1}
    assert params_key({"k": value}) == params_key({"k": value})
    assert params_key({"k": value}) != params_key({"k": {"a": 1}})
    hash(params_key({"k": value}))
