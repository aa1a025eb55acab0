"""Forward mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base import dtypes
from kiln.base.errors import UnexpectedTracerError
from kiln.core.absent import Zero
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage_pure
from kiln.core.trace import state
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import add, eq, mul, sin, stop_gradient
from kiln.transforms.jvp import jvp, jvp_jaxpr

AVAL = ShapedArray((2,), np.dtype(np.float32))
X = from_host(np.array([0.5, 1.0], np.float32))
T = from_host(np.array([1.0, 2.0], np.float32))


def test_tangents_are_pushed_beside_primals() -> None:
    (out,), (t,) = jvp(lambda x: [mul(sin(x), x)], [X], [T])
    x = np.asarray(X)
    np.testing.assert_allclose(np.asarray(out), np.sin(x) * x, 1e-6)
    np.testing.assert_allclose(np.asarray(t), (np.cos(x) * x + np.sin(x)) * np.asarray(T), 1e-6)


def test_what_does_not_move_has_a_zero_tangent() -> None:
    outs, ts = jvp(lambda x, y: [y, eq(x, y), stop_gradient(x), 3.0, x], [X, X], [T, Zero(AVAL)])
    assert [type(t) is Zero for t in ts] == [True, True, True, True, False]
    assert ts[1].aval.dtype == dtypes.float0
    assert ts[4] is T
    assert outs[0] is X


def test_control_flow_on_values_is_allowed() -> None:
    def absolute(x: Any) -> list[Any]:
        return [x if x > 0 else mul(x, -1.0)]

    for value, slope in ((2.0, 1.0), (-2.0, -1.0)):
        _, (t,) = jvp(absolute, [from_host(np.asarray(value, np.float32))], [np.float32(1)])
        assert float(t) == slope


def test_nested_levels_do_not_mix() -> None:
    def inner(x: Any) -> list[Any]:
        # d/dy (x y) at y = 1 is x: only the outer level sees x move.
        _, (t,) = jvp(lambda y: [mul(x, y)], [np.float32(1)], [np.float32(1)])
        return [mul(x, t)]

    _, (t,) = jvp(inner, [np.float32(3)], [np.float32(1)])
    assert float(t) == 6


def test_the_trace_ends_with_the_function() -> None:
    kept: list[Any] = []
    before = state.trace
    jvp(lambda x: kept.append(sin(x)) or [x], [X], [T])
    assert state.trace is before
    with pytest.raises(UnexpectedTracerError):
        jvp(lambda x: [mul(x, kept[0])], [X], [T])


def test_the_program_of_primals_and_tangents() -> None:
    jaxpr = stage_pure(lambda x, y: [mul(x, y), sin(y)], [AVAL, AVAL])
    both, moving = jvp_jaxpr(jaxpr, [True, False])
    assert moving == [True, False]
    assert (len(both.invars), len(both.outvars)) == (3, 3)
    assert jvp_jaxpr(jaxpr, [True, False])[0] is both
    forced, moving = jvp_jaxpr(jaxpr, [True, False], force=[False, True])
    assert moving == [True, True]
    assert len(forced.outvars) == 4
    # A zero that is asked for is an array of zeros.
    assert "broadcast_in_dim" in str(forced)


def test_integers_take_no_tangents() -> None:
    i = from_host(np.arange(2, dtype=np.int32))
    outs, (t,) = jvp(lambda x: [add(x, x)], [i], [Zero(i.aval.tangent())])
    assert isinstance(t, Zero)
    assert t.aval.dtype == dtypes.float0
    assert np.asarray(outs[0]).tolist() == [0, 2]
