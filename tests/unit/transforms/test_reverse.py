"""Reverse mode: linearize, push, pull."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base import dtypes
from kiln.base.errors import MissingRule
from kiln.core.absent import Linear, Zero
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage_pure
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import add, div, gt, mul, neg, select, sin
from kiln.ops.shape import reduce_sum
from kiln.transforms.reverse import backward, linear_program, linearize

AVAL = ShapedArray((2,), np.dtype(np.float32))
X = from_host(np.array([0.5, 1.0], np.float32))
ONE = np.float32(1)


def gradient(fun: Any, *args: Any) -> list[Any]:
    """Return the gradient of a scalar function."""
    _, linear = linearize(lambda *xs: [fun(*xs)], args)
    return linear.pull([ONE])


def test_gradients_flow_back_along_every_path() -> None:
    (found,) = gradient(lambda x: reduce_sum(add(mul(sin(x), x), x), (0,)), X)
    x = np.asarray(X)
    np.testing.assert_allclose(np.asarray(found), np.cos(x) * x + np.sin(x) + 1, 1e-6)


def test_the_linear_program_holds_no_functions_of_the_point() -> None:
    outs, linear = linearize(lambda x: [mul(sin(x), x)], [X])
    assert "sin" not in str(linear.jaxpr)
    assert "cos" not in str(linear.jaxpr)
    np.testing.assert_allclose(np.asarray(outs[0]), np.sin(np.asarray(X)) * np.asarray(X), 1e-6)
    twice = [np.asarray(linear.push([t])[0]) for t in (X, X)]
    np.testing.assert_array_equal(*twice)


def test_inputs_and_outputs_that_do_not_move() -> None:
    i = from_host(np.arange(2, dtype=np.int32))
    outs, linear = linearize(lambda x, i: [x, add(i, i), 1.0], [X, i])
    assert len(outs) == 3
    assert (linear.moving_in, linear.moving_out) == ([True, False], [True, False, False])
    pushed = linear.push([X, Zero(i.aval.tangent())])
    assert [type(t) is Zero for t in pushed] == [False, True, True]
    pulled = linear.pull([X, X, X])
    assert np.asarray(pulled[0]).tolist() == [0.5, 1]
    assert isinstance(pulled[1], Zero)
    assert pulled[1].aval.dtype == dtypes.float0


def test_an_unused_input_has_a_zero_cotangent() -> None:
    found = gradient(lambda x, y: reduce_sum(x, (0,)), X, X)
    assert isinstance(found[1], Zero)
    assert found[1].aval == AVAL


def test_second_order() -> None:
    def slope(x: Any) -> Any:
        (found,) = gradient(lambda y: reduce_sum(sin(y), (0,)), x)
        return reduce_sum(found, (0,))

    (found,) = gradient(slope, X)
    np.testing.assert_allclose(np.asarray(found), -np.sin(np.asarray(X)), 1e-6)


def test_python_control_flow_follows_the_point() -> None:
    def power(x: Any) -> Any:
        out = x
        while out < 100:
            out = mul(out, x)
        return out

    assert float(np.asarray(gradient(power, np.float32(5))[0])) == 75


def test_backward_runs_what_is_not_linear_first() -> None:
    jaxpr = stage_pure(lambda c, x: [mul(sin(c), x), neg(x)], [AVAL, AVAL])
    cts = backward(jaxpr, (), [X, Linear(AVAL)], [X, Zero(AVAL)])
    np.testing.assert_allclose(np.asarray(cts[0]), np.sin(np.asarray(X)) * np.asarray(X), 1e-6)
    cts = backward(jaxpr, (), [X, Linear(AVAL)], [Zero(AVAL), Zero(AVAL)])
    assert isinstance(cts[0], Zero)


def test_what_is_not_linear_is_refused() -> None:
    jaxpr = stage_pure(lambda x: [sin(x)], [AVAL])
    with pytest.raises(MissingRule, match="it is not linear"):
        backward(jaxpr, (), [Linear(AVAL)], [X])


def test_weak_inputs_have_strong_tangents() -> None:
    _, linear = linearize(lambda x: [mul(x, x)], [2.0])
    assert not linear.pull([ONE])[0].weak_type


def test_a_function_linear_in_its_arguments_is_its_own_program() -> None:
    program = linear_program(lambda x: [mul(X, x), 3.0], [AVAL])
    pulled = program.pull([X, ONE])
    np.testing.assert_allclose(np.asarray(pulled[0]), np.asarray(X) ** 2)
    assert len(program.residuals) == 1


def test_integers_are_pulled_back_too() -> None:
    i = from_host(np.arange(2, dtype=np.int32))
    (found,) = linear_program(lambda x: [mul(x, i)], [i.aval]).pull([i])
    assert np.asarray(found).tolist() == [0, 1]


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: mul(x, x),
        lambda x: div(X, x),
        lambda x: select(gt(x, X), x, X),
        sin,
    ],
)
def test_a_program_of_what_is_not_linear_does_not_pull(fun: Any) -> None:
    with pytest.raises(MissingRule, match="not linear"):
        linear_program(lambda x: [fun(x)], [AVAL]).pull([X])
