"""Bodies that are found again by their function."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.control.regions import kept_bodies

XS = np.arange(4, dtype=np.float32)


class Step:
    """A body whose content cannot be read, and which counts how often it is recorded."""

    def __init__(self, factor: Any = 1.0, wrap: Callable[[Any], Any] = lambda y: y) -> None:
        self.factor, self.wrap, self.calls = factor, wrap, 0

    def __call__(self, carry: Any, x: Any) -> Any:
        self.calls += 1
        return carry + self.factor * x, self.wrap(carry)


def test_a_scan_records_its_body_once_per_kind_of_call() -> None:
    step = Step()
    for times in (1, 2, 3):
        assert float(lax.scan(step, 0.0, times * XS)[0]) == 6 * times
    assert step.calls == 1
    assert lax.scan(step, jnp.zeros(2), XS)[0].tolist() == [6, 6]
    assert step.calls == 2
    with kiln.enable_x64():
        assert lax.scan(step, 0.0, XS.astype(np.float64))[0].dtype == np.float64
    assert step.calls == 3
    assert float(kiln.grad(lambda c: lax.scan(step, c, XS)[0])(1.0)) == 1
    assert float(kiln.jit(lambda c: lax.scan(step, c, XS)[0])(1.0)) == 7


def test_other_loops_and_branches() -> None:
    calls: list[str] = []

    def below(c: Any) -> Any:
        calls.append("below")
        return c < 10

    def double(c: Any) -> Any:
        calls.append("double")
        return 2 * c

    def add(i: Any, c: Any) -> Any:
        calls.append("add")
        return c + i

    for start in (1.0, 3.0):
        assert float(lax.while_loop(below, double, start)) == {1: 16, 3: 12}[start]
        assert float(lax.cond(start < 2, double, lambda c: c, start)) == {1: 2, 3: 3}[start]
        for end in (3, jnp.int32(4)):
            assert float(lax.fori_loop(0, end, add, start)) == start + {3: 3, 4: 6}[int(end)]
    assert sorted(calls) == ["add", "below", "double", "double"]


def test_a_changed_function_is_recorded_again() -> None:
    step = Step()

    def body(carry: Any, x: Any, /, factor: float = 1.0) -> Any:
        step.calls += 1
        return carry + factor * x, None

    assert float(lax.scan(body, 0.0, XS)[0]) == 6
    body.__defaults__ = (2.0,)
    assert float(lax.scan(body, 0.0, XS)[0]) == 12
    body.__code__ = (lambda carry, x, /, factor: (carry - factor * x, None)).__code__.replace(
        co_freevars=("step",)
    )
    assert float(lax.scan(body, 0.0, XS)[0]) == -12


def test_options_and_mapped_axes_are_part_of_what_is_kept() -> None:
    class Noisy(Step):
        def __call__(self, carry: Any, x: Any) -> Any:
            self.calls += 1
            return carry + lax.axis_size("i") * x, None

    step = Noisy()
    sums = functools.partial(lax.scan, step, 0.0)
    for size in (2, 3):
        xs = np.ones((size, 4), np.float32)
        assert kiln.vmap(lambda x: sums(x)[0], axis_name="i")(xs).tolist() == [4.0 * size] * size
    with pytest.raises(NameError, match="i"):
        sums(XS)


def test_what_is_closed_over_dies_and_is_recorded_again() -> None:
    step = Step(jnp.float32(2))
    assert float(lax.scan(step, 0.0, XS)[0]) == 12
    held = weakref.ref(step.factor)
    assert float(lax.scan(step, 0.0, XS)[0]) == 12
    assert step.calls == 1
    step.factor = jnp.float32(3)
    gc.collect()
    assert held() is None
    assert float(lax.scan(step, 0.0, XS)[0]) == 18


def test_a_function_and_what_it_holds_die() -> None:
    step = Step(jnp.ones(4)[0])
    held = [weakref.ref(step), weakref.ref(step.factor)]
    lax.scan(step, 0.0, XS)
    del step
    gc.collect()
    assert [r() for r in held] == [None, None]


@kiln.tree_util.register_pytree_node_class
class Marked:
    """A node with a function as its metadata."""

    def __init__(self, value: Any, mark: Any) -> None:
        self.value, self.mark = value, mark

    def tree_flatten(self) -> Any:
        return (self.value,), self.mark

    @classmethod
    def tree_unflatten(cls, mark: Any, children: Any) -> Any:
        return cls(*children, mark)


def test_structures_that_hold_functions_keep_nothing_alive() -> None:
    step = Step()
    step.wrap = lambda y, mark=step: Marked(y, mark)
    for _ in range(2):
        _, ys = lax.scan(step, 0.0, XS)
        assert ys.mark is step
    assert step.calls == 2
    held = weakref.ref(step)
    del step, ys
    gc.collect()
    assert held() is None


def test_structures_with_plain_metadata_are_kept() -> None:
    step = Step(wrap=lambda y: Marked(y, ("a", 1)))
    for _ in range(2):
        assert lax.scan(step, 0.0, XS)[1].mark == ("a", 1)
    assert step.calls == 1


def test_what_is_traced_around_a_body_is_not_kept() -> None:
    step = Step()

    def f(factor: Any) -> Any:
        step.factor = factor
        return lax.scan(step, 0.0, XS)[0]

    assert [float(kiln.jit(f)(2.0)), float(kiln.grad(f)(3.0))] == [12, 6]
    assert float(f(5.0)) == 30


def test_references_are_not_kept() -> None:
    total = kiln.new_ref(jnp.zeros(()))
    step = Step()

    def body(carry: Any, x: Any) -> Any:
        step.calls += 1
        total[...] += x
        return carry, None

    for times in (1, 2):
        lax.scan(body, 0.0, XS)
        assert float(total[...]) == 6 * times


def test_of_one_function_so_many_are_kept() -> None:
    step = Step()
    for size in range(kept_bodies.MOST + 2):
        lax.scan(step, np.zeros(size, np.float32), XS)
    assert step.calls == kept_bodies.MOST + 2
    found = kept_bodies._kept.get(step)
    assert 0 < len(found) <= kept_bodies.MOST
    kiln.clear_caches()
    assert not found
