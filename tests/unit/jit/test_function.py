"""The jitted callable: what runs on a hit, and under which trace."""

from __future__ import annotations

import numpy as np

import kiln
from kiln import lax
from kiln.api.jit import wrap
from kiln.core.arrays.array import from_host
from kiln.jit import function
from kiln.transforms.batching import MappedAxis, batch


def test_a_hit_does_not_trace_flatten_or_look_at_names(monkeypatch) -> None:
    f = wrap(lambda x, y: lax.add(x, y))
    x = from_host(np.ones(3, np.float32))
    f(x, x)
    f(x, x)

    def never(*args, **kwargs):
        raise AssertionError("not on a hit")

    monkeypatch.setattr(function.JitFunction, "_call", never)
    for name in ("Arguments", "run", "bind"):
        monkeypatch.setattr(function, name, never)
    np.testing.assert_array_equal(f(x, x), [2, 2, 2])


def test_static_results_come_back_on_hits_too() -> None:
    traces = []

    def counted(x):
        traces.append(1)
        return lax.sin(x), {"count": 3}

    f = wrap(counted, static_result=True)
    for _ in range(3):
        y, static = f(np.float32(0))
        assert (float(y), static) == (0.0, {"count": 3})
    assert len(traces) == 1


def test_under_a_trace_the_call_is_one_equation() -> None:
    f = wrap(lax.sin)
    stack = from_host(np.zeros((4, 3), np.float32))
    (out,), (axis,) = batch(lambda x: [f(x)], MappedAxis(4), [stack], [0])
    assert (out.shape, axis) == ((4, 3), 0)
    jaxpr = kiln.make_jaxpr(lambda x: f(f(x)))(1.0)
    assert [e.primitive.name for e in jaxpr.eqns] == ["jit", "jit"]
    assert jaxpr.eqns[0].params["jaxpr"] is jaxpr.eqns[1].params["jaxpr"]


def test_a_program_that_captured_a_tracer_is_not_kept() -> None:
    made = []

    def outer(a):
        inner = wrap(lambda x: lax.mul(x, a))
        made.append(inner)
        return inner(2.0)

    assert kiln.grad(outer)(3.0) == 2
    assert made[0]._cache_size() == 0


def test_methods_bind() -> None:
    class Model:
        f = kiln.jit(lambda self, x: lax.mul(x, 2.0), static_argnums=0)

    assert Model().f(3.0) == 6


def test_attributes_of_a_callable_do_not_replace_the_wrappers() -> None:
    class Scaled:
        """Multiplies."""

        def __init__(self) -> None:
            self._call = self._binding = self._lookup = self.lower = "mine"
            self.factor = 3.0

        def __call__(self, x):
            return x * self.factor

    scaled = Scaled()
    jitted = kiln.jit(scaled)
    for _ in range(3):
        assert float(jitted(2.0)) == 6.0
    assert jitted.factor == 3.0
    assert "multiply" in jitted.lower(2.0).as_text()
