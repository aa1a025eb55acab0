"""vmap is a stack of calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from tests.properties.agreement import agree, by_meaning, stacked
from tests.properties.exploring import explored
from tests.properties.programs import ANY, SMOOTH, Program, programs

TURNS = 3


@pytest.fixture(autouse=True)
def _on_the_reference_engine() -> Iterator[None]:
    with by_meaning():
        yield


def _calls(program: Program, function: Any) -> Any:
    return stacked([function(*program.inputs(turn=i)) for i in range(TURNS)])


def _stacks(program: Program) -> list[Any]:
    return stacked([program.inputs(turn=i) for i in range(TURNS)])


@explored(programs(ANY), few=10, many=800)
def test_vmap_is_a_stack_of_calls(program: Program) -> None:
    function = program.function
    expected = _calls(program, function)
    agree(kiln.vmap(function)(*_stacks(program)), expected)
    agree(kiln.jit(kiln.vmap(kiln.jit(function)))(*_stacks(program)), expected)


@explored(programs(ANY), few=6, many=500)
def test_axes_in_other_places(program: Program) -> None:
    function = program.function
    expected = kiln.tree.map(lambda x: jnp.moveaxis(x, 0, -1), _calls(program, function))
    last = [jnp.moveaxis(x, 0, -1) for x in _stacks(program)]
    agree(kiln.vmap(function, in_axes=-1, out_axes=-1)(*last), expected)


@explored(programs(ANY), few=6, many=500)
def test_only_the_first_argument_mapped(program: Program) -> None:
    function = program.function
    first, *rest = program.inputs()
    stack = _stacks(program)[0]
    expected = stacked([function(stack[i], *rest) for i in range(TURNS)])
    in_axes = (0, *[None] * len(rest))
    agree(kiln.vmap(function, in_axes)(stack, *rest), expected)


@explored(programs(ANY), few=4, many=300)
def test_vmap_of_vmap(program: Program) -> None:
    function = program.function
    rows = stacked([_stacks(program), [x[::-1] + 0.25 for x in _stacks(program)]])
    expected = stacked([kiln.vmap(function)(*[x[i] for x in rows]) for i in range(2)])
    agree(kiln.vmap(kiln.vmap(function))(*rows), expected)


@explored(programs(SMOOTH | {"custom_vjp", "grad"}), few=6, many=400)
def test_per_example_gradients(program: Program) -> None:
    every = tuple(range(len(program.shapes)))
    function = program.scalar()
    gradient = kiln.grad(function, every)
    expected = _calls(program, gradient)
    agree(kiln.vmap(gradient)(*_stacks(program)), expected, 1e-3)

    def total(*xs: Any) -> Any:
        return jnp.sum(kiln.vmap(function)(*xs))

    agree(kiln.grad(total, every)(*_stacks(program)), expected, 1e-3)


@explored(programs(ANY), few=4, many=200)
def test_vmap_on_xla(program: Program) -> None:
    expected = _calls(program, program.function)
    with override(engine="xla"):
        agree(kiln.jit(kiln.vmap(program.function))(*_stacks(program)), expected)
