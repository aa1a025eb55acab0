"""Programs as data."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from kiln.core.primitive import Primitive
from kiln.ir.effects import DEBUG, IO, must_keep, named_axis, union
from kiln.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from kiln.ir.types import ShapedArray

AVAL = ShapedArray((3,), np.dtype(np.float32))
neg_p = Primitive("neg")


def program() -> Jaxpr:
    a, b = Var(AVAL), Var(AVAL)
    return Jaxpr([], [a], [Eqn(neg_p, [a], [b], {"k": 1})], [b, a], name="f", arg_names=["x"])


def test_attributes() -> None:
    jaxpr = program()
    assert jaxpr.in_avals == [AVAL]
    assert jaxpr.out_avals == [AVAL, AVAL]
    assert (jaxpr.name, jaxpr.arg_names, jaxpr.constvars) == ("f", ("x",), [])
    (eqn,) = jaxpr.eqns
    assert eqn.primitive.name == "neg"
    assert eqn.params == {"k": 1}
    closed = ClosedJaxpr(jaxpr, [1])
    assert (closed.eqns, closed.in_avals, closed.out_avals) == (jaxpr.eqns, [AVAL], [AVAL, AVAL])
    assert str(closed) == str(jaxpr)
    assert closed.consts == [1]


def test_variables_are_compared_by_identity() -> None:
    assert Var(AVAL) != Var(AVAL)
    assert not Var(AVAL).is_literal
    assert Literal(1.0, AVAL).is_literal


def test_changes_make_a_new_program() -> None:
    jaxpr = program()
    jaxpr.memo["derived"] = 1
    other = jaxpr.with_(outvars=jaxpr.outvars[:1])
    assert len(jaxpr.outvars) == 2
    assert len(other.outvars) == 1
    assert (other.name, other.memo) == ("f", {})
    eqn = jaxpr.eqns[0].with_(params={})
    assert (eqn.params, jaxpr.eqns[0].params) == ({}, {"k": 1})


def test_effects_are_those_of_the_equations() -> None:
    a = Var(AVAL)
    noisy = Eqn(neg_p, [a], [Var(AVAL)], {}, frozenset({DEBUG}))
    assert Jaxpr([], [a], [noisy, noisy], []).effects == {DEBUG}
    assert program().effects == frozenset()


def test_effects_join_and_keep() -> None:
    axis = named_axis("batch")
    assert union([frozenset({IO}), frozenset(), frozenset({axis})]) == {IO, axis}
    assert axis == named_axis("batch")
    assert axis != named_axis("other")
    assert must_keep(frozenset({DEBUG, axis}))
    assert not must_keep(frozenset({axis}))


def test_what_is_derived_lives_as_long_as_the_program() -> None:
    jaxpr = program()
    jaxpr.memo["derived"] = other = program()
    there = weakref.ref(other)
    del other
    assert there() is not None
    del jaxpr
    gc.collect()
    assert there() is None
