"""What rules of primitives that are objects are given: accumulators, and the mapped axis."""

from __future__ import annotations

from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.control.high.hi_rules import AxisData, GradAccum, NullAccum
from kiln.core.absent import Zero, is_zero
from kiln.experimental import hijax


def test_accumulators_add_what_they_are_given() -> None:
    aval = kiln.typeof(jnp.ones(2))
    accumulator = GradAccum(aval)
    assert all(map(is_zero, accumulator.found()))
    for ct in (None, jnp.ones(2), Zero(aval), jnp.arange(2.0)):
        accumulator.accum(ct)
    (found,) = accumulator.found()
    assert found.tolist() == [1.0, 2.0]
    dropping = NullAccum(aval)
    dropping.accum(jnp.ones(2))
    assert isinstance(dropping, GradAccum) and all(map(is_zero, dropping.found()))


def test_rules_for_stacks_know_the_axis() -> None:
    seen: list[Any] = []

    class Sum(hijax.VJPHiPrimitive):
        def __init__(self, aval: Any) -> None:
            self.in_avals, self.out_aval, self.params = {"x": aval}, aval, {}
            self.in_avals = ({"x": aval}, aval)
            super().__init__()

        def expand(self, *args: Any) -> Any:
            return args[0]["x"] + args[1]

        def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
            seen.append((axis_data, dims))
            return args[0]["x"] + args[1], 0

    def f(x: Any, y: Any) -> Any:
        return Sum(kiln.typeof(x))({"x": x}, y)

    out = kiln.vmap(f, in_axes=(0, None), axis_name="i")(jnp.arange(3.0), 1.0)
    np.testing.assert_array_equal(out, [1.0, 2.0, 3.0])
    assert seen == [(AxisData(3, "i"), ({"x": 0}, None))]


def test_rules_are_of_the_arrays_that_values_consist_of() -> None:
    text = str(kiln.make_jaxpr(kiln.grad(lambda x: Times(kiln.typeof(x))((x, x))))(2.0))
    assert "_ = Times a a" in text and "b:f32[] = mul 1.0 a" in text


class Times(hijax.VJPHiPrimitive):
    def __init__(self, aval: Any) -> None:
        self.in_avals, self.out_aval, self.params = ((aval, aval),), aval, {}
        super().__init__()

    def expand(self, *args: Any) -> Any:
        return args[0][0] * args[0][1]

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        assert nzs_in == ((True, True),)
        return self(*primals), primals[0]

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        (x, y), (dx, dy) = residuals, tangents[0]
        return x * dy + dx * y
