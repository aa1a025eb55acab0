"""Operands that a program asks for while it is recorded, and gets anew at every call."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.jit.late import LateFunction, late_operands


@pytest.fixture(autouse=True)
def _on_the_reference_engine() -> Any:
    with override(engine="reference"):
        yield


class Numbers:
    """A supply that adds the recipe to a number of the call."""

    def __init__(self, base: Any) -> None:
        self.base = base
        self.asked: list[tuple[Hashable, ...]] = []

    def values(self, recipes: Sequence[Any]) -> Sequence[Any]:
        self.asked.append(tuple(recipes))
        return [np.uint32(self.base + r) for r in recipes]


def counted(fun: Any) -> tuple[LateFunction, list[int]]:
    traces: list[int] = []

    def run(*args: Any) -> Any:
        traces.append(1)
        return fun(*args)

    return LateFunction(run), traces


def two(x: Any) -> Any:
    ask = late_operands().ask
    return x + ask(1), ask(2), ask(1)


def test_numbers_are_supplied_at_every_call() -> None:
    f, traces = counted(lambda x: (two(x), "names"))
    (a, b, c), static = f.call(Numbers(10), None, np.uint32(100))
    assert (int(a), int(b), int(c), static) == (111, 12, 11, "names")
    (a, b, c), static = f.call(Numbers(20), None, np.uint32(100))
    assert (int(a), int(b), int(c), static) == (121, 22, 21, "names")
    assert len(traces) == 1


def test_a_recipe_is_one_operand() -> None:
    f, _ = counted(lambda x: (two(x), None))
    supply = Numbers(0)
    f.call(supply, None, np.uint32(0))
    assert supply.asked == [(1, 2)]


def test_nothing_is_asked_of_the_supply_without_recipes() -> None:
    f, _ = counted(lambda x: (x + 1, None))
    supply = Numbers(0)
    assert int(f.call(supply, None, 1)[0]) == 2
    assert supply.asked == []


def test_under_a_trace_the_numbers_belong_to_the_call() -> None:
    f, traces = counted(lambda x: (two(x)[0], None))

    @kiln.jit
    def outer(x: Any) -> Any:
        return f.call(Numbers(10), None, x)[0], f.call(Numbers(20), None, x)[0]

    first, second = outer(np.uint32(100))
    assert (int(first), int(second), len(traces)) == (111, 121, 1)


def test_an_inner_program_asks_the_outer_one() -> None:
    inner, inner_traces = counted(lambda x: (x * late_operands().ask(1), None))

    class FromOutside:
        def __init__(self, ask: Any, base: int) -> None:
            self.ask, self.base = ask, base

        def values(self, recipes: Sequence[Any]) -> Sequence[Any]:
            return [self.ask(self.base + r) for r in recipes]

    def body(x: Any) -> Any:
        ask = late_operands().ask
        return (
            inner.call(FromOutside(ask, 0), None, x)[0],
            inner.call(FromOutside(ask, 5), None, x)[0],
        ), None

    outer, outer_traces = counted(body)
    for base in (10, 20):
        (a, b), _ = outer.call(Numbers(base), None, np.uint32(3))
        assert (int(a), int(b)) == (3 * (base + 1), 3 * (base + 6))
    assert (len(inner_traces), len(outer_traces)) == (1, 1)


def test_late_operands_inside_control_flow_and_derivatives() -> None:
    def body(x: Any) -> Any:
        n = late_operands()

        def step(carry: Any, _: Any) -> Any:
            return carry * n.ask(3).astype(jnp.float32), None

        return kiln.lax.scan(step, x, None, length=2)[0], None

    f, _ = counted(body)
    assert float(f.call(Numbers(0), None, np.float32(2))[0]) == 18.0
    slope = kiln.grad(lambda x: f.call(Numbers(1), None, x)[0])(np.float32(2))
    assert float(slope) == 16.0
    stacked = kiln.vmap(lambda x: f.call(Numbers(0), None, x)[0])(np.ones(3, "f4"))
    assert stacked.tolist() == [9.0] * 3


def test_a_failed_recording_leaves_nothing_behind() -> None:
    f, _ = counted(lambda x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        f.call(Numbers(0), None, 1)
    with pytest.raises(IndexError):
        late_operands()


def test_programs_depend_on_static_values() -> None:
    f, traces = counted(lambda x: (two(x)[0], None))
    for static in ("a", "b", "a"):
        assert int(f.call(Numbers(0), static, np.uint32(1))[0]) == 2
    assert len(traces) == 2


def test_clearing_the_caches_forgets_programs() -> None:
    f, traces = counted(lambda x: (two(x)[0], None))
    f.call(Numbers(0), None, np.uint32(1))
    kiln.clear_caches()
    f.call(Numbers(0), None, np.uint32(1))
    assert len(traces) == 2
