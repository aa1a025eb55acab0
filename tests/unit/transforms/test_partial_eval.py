"""Partial evaluation: the known runs now, the unknown is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.control.call import jit_p
from kiln.core.arrays.array import from_host
from kiln.core.staging import eval_jaxpr, stage, stage_pure
from kiln.core.trace import state
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import add, mul, sin
from kiln.transforms.partial_eval import partial_eval

AVAL = ShapedArray((2,), np.dtype(np.float32))
X = from_host(np.array([0.5, 1.0], np.float32))


def fun(x: Any, y: Any) -> list[Any]:
    return [sin(x), mul(sin(x), y), 2.0]


def test_known_operations_run_and_unknown_ones_are_recorded() -> None:
    known, unknown, jaxpr, residuals = partial_eval(fun, [X, None], [None, AVAL])
    assert unknown == [False, True, False]
    np.testing.assert_allclose(np.asarray(known[0]), np.sin(np.asarray(X)), 1e-6)
    assert known[1] == 2.0
    assert str(jaxpr) == "{ lambda a:f32[2]; b:f32[2]. let c:f32[2] = mul a b in (c,) }"
    (out,) = eval_jaxpr(jaxpr, residuals, X)
    np.testing.assert_allclose(np.asarray(out), np.sin(np.asarray(X)) * np.asarray(X), 1e-6)


def test_outputs_may_be_forced_to_be_unknown() -> None:
    known, unknown, jaxpr, residuals = partial_eval(
        fun, [X, None], [None, AVAL], force=[True, True, True]
    )
    assert (known, unknown) == ([], [True] * 3)
    outs = eval_jaxpr(jaxpr, residuals, X)
    np.testing.assert_allclose(np.asarray(outs[0]), np.sin(np.asarray(X)), 1e-6)
    assert outs[2] == 2.0


def test_residuals_nobody_needs_are_dropped() -> None:
    _, _, jaxpr, residuals = partial_eval(
        lambda x, y: [add(y, y), mul(y, sin(x))][:1], [X, None], [None, AVAL]
    )
    assert residuals == []
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["add"]


def test_known_parts_are_staged_by_the_parent() -> None:
    inner: list[Any] = []

    def outer(x: Any) -> list[Any]:
        known, _, jaxpr, residuals = partial_eval(fun, [x, None], [None, AVAL])
        inner.append(jaxpr)
        return [*known, *residuals]

    jaxpr, _ = stage(outer, [AVAL])
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["sin", "sin"]
    assert [eqn.primitive.name for eqn in inner[0].eqns] == ["mul"]


def test_a_call_is_split() -> None:
    body = stage_pure(fun, [AVAL, AVAL])

    def call(x: Any, y: Any) -> list[Any]:
        return list(jit_p.bind(x, y, jaxpr=body, name="f"))

    known, unknown, jaxpr, residuals = partial_eval(call, [X, None], [None, AVAL])
    assert unknown == [False, True, False]
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["jit"]
    assert "sin" not in str(jaxpr)
    (out,) = eval_jaxpr(jaxpr, residuals, X)
    np.testing.assert_allclose(np.asarray(out), np.sin(np.asarray(X)) * np.asarray(X), 1e-6)
    np.testing.assert_allclose(np.asarray(known[0]), np.sin(np.asarray(X)), 1e-6)


def test_state_is_restored() -> None:
    before = state.trace
    partial_eval(fun, [X, None], [None, AVAL])
    assert state.trace is before
