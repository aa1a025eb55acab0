"""Jitted functions that take, close over and return high values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from tests.unit.control.hi_values import Box, Scaled, from_scaled_p, to_scaled_p

X = np.array([1.0, -0.5, 0.25], np.float32)


def test_values_are_passed_and_returned() -> None:
    x = kiln.jit(lambda x: {"x": to_scaled_p.bind(x)})(X)["x"]
    assert type(x) is Scaled and x.small.dtype == np.int8
    found = kiln.jit(lambda x, k: from_scaled_p.bind(x) * k)(x, k=2.0)
    np.testing.assert_allclose(found, 2 * from_scaled_p.bind(x))


def test_what_a_program_stores_is_there_after_each_call() -> None:
    traces = []

    @kiln.jit
    def add(box: Any, x: Any) -> Any:
        traces.append(x)
        box.set(box.get() + x)
        return box.get() * 2

    box, other = Box(jnp.zeros(3)), Box(jnp.ones(3))
    for i in range(1, 4):
        np.testing.assert_allclose(add(box, X), 2 * i * X)
        np.testing.assert_allclose(box.get(), i * X)
    add(other, X)
    np.testing.assert_allclose(other.get(), 1 + X)
    assert len(traces) == 1


def test_a_program_may_store_values_of_another_type() -> None:
    box = Box(1.0)
    put = kiln.jit(lambda box, x: box.set({"a": x, "b": box.get()}))
    put(box, X)
    put(box, 2)
    found = box.get()
    assert found["a"] == 2 and found["b"]["b"] == 1.0
    np.testing.assert_allclose(found["b"]["a"], X)


def test_values_that_are_closed_over_change_too() -> None:
    box = Box(0.0)
    traces = []

    @kiln.jit
    def add(x: Any) -> Any:
        traces.append(x)
        box.set(box.get() + x)
        return x

    for i in range(1, 4):
        assert float(add(1.0)) == 1.0
        assert float(box.get()) == i
    box.set(10.0)
    add(1.0)
    assert float(box.get()) == 11.0
    # Once to find out, once as it runs; once for another type of what is held.
    assert len(traces) <= 4


def test_programs_within_programs() -> None:
    box = Box(0.0)
    inner = kiln.jit(lambda b, x: b.set(b.get() + x))
    add = kiln.jit(lambda x: box.set(box.get() * x))

    @kiln.jit
    def outer(b: Any, x: Any) -> Any:
        inner(b, x)
        own = Box(x)
        inner(own, x)
        add(2.0)
        return own.get()

    passed = Box(1.0)
    box.set(3.0)
    assert float(outer(passed, 5.0)) == 10.0
    assert (float(passed.get()), float(box.get())) == (6.0, 6.0)


def test_static_arguments_and_keywords() -> None:
    box = Box(2.0)
    scale = kiln.jit(lambda b, n, k: b.get() * len(n) * k, static_argnums=1)
    assert float(scale(box, "ab", 3.0)) == 12.0
    assert float(scale(box, "abc", k=3.0)) == 18.0
    assert float(scale(k=1.0, n="a", b=box)) == 2.0


def test_shardings_and_donation() -> None:
    box = Box(jnp.zeros(8))
    rows = kiln.sharding.NamedSharding(kiln.make_mesh((8,), ("x",)), kiln.sharding.P("x"))

    def put(b: Any, x: Any) -> Any:
        b.set(b.get() + x)
        return x * 2

    found = kiln.jit(put, in_shardings=(None, rows), out_shardings=rows)(box, jnp.ones(8))
    assert found.sharding == rows
    np.testing.assert_allclose(box.get(), np.ones(8))
    x = jnp.ones(8)
    kiln.jit(put, donate_argnums=1)(Box(jnp.zeros(8)), x)
    assert x.is_deleted()
    with pytest.raises(NotImplementedError, match="one sharding for all arguments"):
        kiln.jit(put, in_shardings=rows)(box, jnp.ones(8))


def test_without_jit() -> None:
    box = Box(1.0)
    with kiln.disable_jit():
        kiln.jit(lambda b, x: b.set(b.get() + x))(box, 2.0)
    assert float(box.get()) == 3.0


def test_derivatives_of_what_is_stored_inside() -> None:
    def f(x: Any) -> Any:
        box = Box(x)
        kiln.jit(lambda b, y: b.set(b.get() * y))(box, x)
        return box.get().sum()

    np.testing.assert_allclose(kiln.grad(f)(X), 2 * X)
    np.testing.assert_allclose(kiln.jit(kiln.grad(f))(X), 2 * X)
    np.testing.assert_allclose(kiln.vmap(kiln.grad(f))(X[:, None])[:, 0], 2 * X)


def test_what_moves_is_not_stored_outside() -> None:
    box = Box(X)

    def f(x: Any, keep: bool) -> Any:
        kept = lax.stop_gradient(x) if keep else x
        kiln.jit(lambda b, y: b.set(y * 2))(box, kept)
        return (x**2).sum()

    np.testing.assert_allclose(kiln.grad(f)(X, True), 2 * X)
    np.testing.assert_allclose(box.get(), 2 * X)
    with pytest.raises(ValueError, match=r"an operand of type float32.3. is moving") as caught:
        kiln.grad(f)(X, False)
    assert len(str(caught.value).splitlines()) == 3
    with pytest.raises(ValueError, match="is mapped") as caught:
        kiln.vmap(lambda x: box.set(x))(X)
    assert len(str(caught.value).splitlines()) == 3
    np.testing.assert_allclose(box.get(), 2 * X)


def test_what_is_refused() -> None:
    box = Box(1.0)
    calls = [
        (lambda: kiln.jit(lambda b: b)(box), "returned a value of type Box"),
        (lambda: kiln.jit(lambda: box)(), "returned a value of type Box"),
        (lambda: kiln.jit(lambda b, c: b.get())(box, box), "was passed twice"),
        (lambda: kiln.jit(lambda b: box.set(b.get()))(box), "was passed twice"),
    ]
    for call, words in calls:
        with pytest.raises((ValueError, NotImplementedError), match=words) as caught:
            call()
        assert len(str(caught.value).splitlines()) == 3
    assert box.get() == 1.0


def test_a_failing_function_leaves_values_as_they_were() -> None:
    box = Box(1.0)

    @kiln.jit
    def fails(x: Any) -> Any:
        box.set(x)
        raise KeyError("no")

    with pytest.raises(KeyError):
        fails(2.0)
    assert box.get() == 1.0
