"""Loops and branches that use values that change and that were made outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.control.high.high_values import lower
from kiln.experimental import hijax
from tests.unit.control.hi_values import Box, BoxTy


def doubling(box: Any, result: Any = None) -> Any:
    box.set(box.get() * 2)
    return result


LOOPS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda box: lax.scan(lambda c, x: doubling(box, (c, x)), 0, jnp.arange(3)),
    "scan, by name": lambda box: lax.scan(f=lambda c, x: doubling(box, (c, x)), init=0, length=3),
    "fori_loop": lambda box: lax.fori_loop(0, 3, lambda i, x: doubling(box, x), 1),
    "fori_loop, by name": lambda box: lax.fori_loop(
        lower=0, upper=jnp.asarray(3), body_fun=lambda i, x: doubling(box, x), init_val=1
    ),
    "while_loop": lambda box: lax.while_loop(
        lambda x: box.get() < 8, lambda x: doubling(box, x + 1), 1
    ),
    "cond": lambda box: lax.cond(
        box.get() > 0, lambda x: box.set(x), lambda x: box.set(-x), jnp.float32(8)
    ),
    "cond, an operand": lambda box: lax.cond(
        box.get() < 0, lambda x: box.set(-x), lambda x: box.set(x), operand=jnp.float32(8)
    ),
    "switch": lambda box: lax.switch(jnp.asarray(1), [lambda: box.set(-1.0), lambda: box.set(8.0)]),
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_body_stores_is_there_afterwards(name: str) -> None:
    loop = LOOPS[name]

    def made(x: Any) -> Any:
        box = Box(x)
        loop(box)
        return box.get()

    box = Box(1.0)
    loop(box)
    assert float(box.get()) == 8.0
    closed = Box(1.0)
    for _ in range(2):
        closed.set(1.0)
        kiln.jit(lambda: loop(closed))()
        assert float(closed.get()) == 8.0
    passed = Box(1.0)
    kiln.jit(loop)(passed)
    assert float(passed.get()) == 8.0
    assert float(kiln.jit(made)(1.0)) == 8.0


def test_results_and_several_values() -> None:
    a, b = Box(0.0), Box({"n": jnp.zeros(2)})

    def body(carry: Any, x: Any) -> Any:
        a.set(a.get() + x)
        b.set({"n": b.get()["n"] + carry})
        return carry + 1, a.get()

    last, sums = lax.scan(body, 0.0, jnp.arange(4.0))
    assert float(last) == 4.0 and sums.tolist() == [0.0, 1.0, 3.0, 6.0]
    assert float(a.get()) == 6.0 and b.get()["n"].tolist() == [6.0, 6.0]
    assert lax.while_loop(lambda n: n < 5, lambda n: n + 1, 0) == 5


def test_derivatives_through_a_loop() -> None:
    def power(x: Any) -> Any:
        box = Box(x)
        lax.scan(lambda c, _: (c, box.set(box.get() * x)), 0, length=2)
        return box.get()

    np.testing.assert_allclose(kiln.grad(power)(2.0), 12.0)
    np.testing.assert_allclose(kiln.jit(kiln.grad(power))(2.0), 12.0)
    np.testing.assert_allclose(kiln.vmap(power)(np.arange(3.0)), [0.0, 1.0, 8.0])


def test_a_body_may_not_change_the_type_of_what_is_held() -> None:
    box = Box(1.0)
    with pytest.raises(TypeError, match="type-changing mutations not allowed"):
        lax.scan(lambda c, x: (c, box.set({"a": x})), 0, jnp.arange(3.0))
    with pytest.raises(TypeError):
        lax.cond(True, lambda: box.set(1), lambda: box.set({"a": 1}))
    assert box.get() == 1.0


def test_what_other_functions_close_over_is_refused() -> None:
    box = Box(1.0)
    with pytest.raises(NotImplementedError, match="made outside the function") as caught:
        kiln.checkpoint(lambda x: box.set(x))(1.0)
    assert len(str(caught.value).splitlines()) == 3
    assert box.get() == 1.0


def test_programs_that_are_only_recorded_change_nothing() -> None:
    box = Box(1.0)
    jaxpr = kiln.make_jaxpr(lambda x: box.set(box.get() + x))(2.0)
    # What the box holds goes in, and comes out.
    assert [len(jaxpr.in_avals), len(jaxpr.out_avals)] == [2, 1]
    assert box.get() == 1.0
    assert kiln.eval_shape(lambda x: (box.set(x), x)[1], 2.0).shape == ()
    assert box.get() == 1.0


def test_a_value_as_a_tree() -> None:
    found = lower(Box((1.0, 2.0)))
    assert kiln.tree.leaves(found) == [1.0, 2.0]
    assert found.kind == hijax.AvalQDD(BoxTy(), found.kind.qdd)
    assert kiln.tree.map(lambda x: x + 1, found).value().get() == (2.0, 3.0)
