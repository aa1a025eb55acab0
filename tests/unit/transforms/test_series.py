"""Taylor mode."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from kiln.base.errors import UnexpectedTracerError
from kiln.core.arrays.array import from_host
from kiln.core.meaning import meaning
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of, state
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import eq, exp, floor, mul, sin
from kiln.transforms.series import packed, series, series_jaxpr, unpacked

AVAL = ShapedArray((2,), np.dtype(np.float32))
X = from_host(np.array([0.5, 1.0], np.float32))
ONE = from_host(np.array([1.0, 1.0], np.float32))
ZERO = from_host(np.array([0.0, 0.0], np.float32))


def test_coefficients_follow_from_tangents() -> None:
    # Without any rule: exp(x + t) = exp(x) (1 + t + t^2 / 2 + ...).
    (out,), (terms,) = series(lambda x: [exp(x)], [X], [[ONE, ZERO, ZERO, ZERO]], 4, {})
    assert terms is not None
    for k, term in enumerate([out, *terms]):
        expected = np.exp(np.asarray(X)) / math.factorial(k)
        np.testing.assert_allclose(np.asarray(term), expected, 1e-5)


def test_what_does_not_move_has_no_terms() -> None:
    outs, terms = series(lambda x, y: [y, eq(x, y), floor(x), 3.0, x], [X, X], [[ONE], None], 1, {})
    assert [t is None for t in terms] == [True, True, True, True, False]
    assert outs[0] is X


def test_a_rule_takes_the_place_of_the_tangent() -> None:
    seen: list[Any] = []

    def rule(trace: Any, primitive: Any, primals: Any, terms: Any, params: Any) -> Any:
        seen.append((trace.order, primitive.name, terms, params))
        return primals[0], [ONE, X]

    (out,), (terms,) = series(lambda x: [sin(x)], [X], [[ONE, ZERO]], 2, {"sin": rule})
    assert out is X
    assert terms == [ONE, X]
    assert seen == [(2, "sin", [[ONE, ZERO]], {})]


def test_order_zero_is_the_function() -> None:
    outs, terms = series(lambda x: [x, 2.0], [X], [[]], 0, {})
    assert outs == [X, 2.0]
    assert terms == [None, None]


def test_control_flow_on_values_is_allowed() -> None:
    one = np.float32(1)

    def fun(x: Any) -> list[Any]:
        return [mul(x, x) if x.concrete() > 0 else x]

    _, ((term,),) = series(fun, [from_host(one)], [[from_host(one)]], 1, {})
    assert np.asarray(term) == 2


def test_nested_series_do_not_mix() -> None:
    def slope(x: Any) -> list[Any]:
        # Of x y by y: x, whose own coefficients are those of the series outside.
        _, ((term,),) = series(lambda y: [mul(x, y)], [x], [[ONE]], 1, {})
        return [term]

    (out,), (terms,) = series(slope, [X], [[ONE, X]], 2, {})
    np.testing.assert_array_equal(np.asarray(out), X)
    assert [np.asarray(term).tolist() for term in terms or ()] == [[1, 1], [0.5, 1]]


def test_programs_of_series_have_coefficients_behind_each_value() -> None:
    program = stage_pure(lambda x, y: [mul(x, y), y], [AVAL, AVAL])
    found, moving = series_jaxpr(program, [True, False], 2, {})
    assert moving == [True, False]
    assert len(found.invars) == 4
    assert len(found.outvars) == 4
    assert series_jaxpr(program, [True, False], 2, {})[1] == moving
    x, y = np.asarray(X), np.array([3.0, 4.0], np.float32)
    outs = meaning(found, [x, np.ones_like(x), 2 * x, y])
    np.testing.assert_allclose(outs, [x * y, y, 2 * x * y, y], 1e-6)


def test_outputs_can_be_forced_to_move() -> None:
    program = stage_pure(lambda x, y: [x, y], [AVAL, AVAL])
    found, moving = series_jaxpr(program, [True, False], 1, {}, [False, True])
    assert moving == [True, True]
    outs = meaning(found, [np.asarray(X), np.asarray(ONE), np.asarray(X)])
    assert not np.asarray(outs[3]).any()


def test_packing_is_undone_by_unpacking() -> None:
    values = packed([X, ONE], [[ONE, ZERO], None], [True, False], 2)
    assert values == [X, ONE, ZERO, ONE]
    assert unpacked(values, [True, False], 2) == ([X, ONE], [[ONE, ZERO], None])
    assert aval_of(packed([X], [None], [True], 1)[1]) == AVAL


def test_tracers_do_not_survive() -> None:
    leaked: list[Any] = []

    def fun(x: Any) -> list[Any]:
        leaked.append(x)
        return [x]

    series(fun, [X], [[ONE]], 1, {})
    assert state.trace.parent is None
    with pytest.raises(UnexpectedTracerError, match="under jet"):
        series(lambda x: [mul(x, leaked[0])], [X], [[ONE]], 1, {})
