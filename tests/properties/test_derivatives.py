"""Derivatives agree with finite differences, with each other, and with those of jitted programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from tests.properties.agreement import agree, by_meaning, inner
from tests.properties.exploring import explored
from tests.properties.programs import SMOOTH, Program, programs

STEP = 1e-6
REVERSE = SMOOTH - {"smooth"} | {"grad", "custom_vjp"}


@pytest.fixture(autouse=True)
def _in_double_precision() -> Iterator[None]:
    with by_meaning(enable_x64=True):
        yield


def _direction(like: Any) -> Any:
    rng = np.random.default_rng(1)
    return kiln.tree.map(lambda x: jnp.asarray(rng.standard_normal(x.shape)), like)


def _difference(function: Any, x: list[Any], v: list[Any]) -> Any:
    high = function(*[a + STEP * b for a, b in zip(x, v, strict=True)])
    low = function(*[a - STEP * b for a, b in zip(x, v, strict=True)])
    return kiln.tree.map(lambda a, b: (a - b) / (2 * STEP), high, low)


def _every(program: Program) -> tuple[int, ...]:
    return tuple(range(len(program.shapes)))


@explored(programs(SMOOTH), few=15, many=1200)
def test_jvp_is_a_finite_difference(program: Program) -> None:
    x = program.inputs(np.float64)
    v = _direction(x)
    function = program.function
    expected = _difference(function, x, v)
    _, tangent = kiln.jvp(function, tuple(x), tuple(v))
    agree(tangent, expected, 1e-5)
    _, of_jit = kiln.jvp(kiln.jit(function), tuple(x), tuple(v))
    agree(of_jit, tangent, 1e-9)


@explored(programs(SMOOTH), few=15, many=1200)
def test_vjp_is_the_adjoint_of_jvp(program: Program) -> None:
    x = program.inputs(np.float64)
    v = _direction(x)
    out, pull = kiln.vjp(program.function, *x)
    w = _direction(out)
    value, tangent = kiln.jvp(program.function, tuple(x), tuple(v))
    agree(value, out, 1e-12)
    expected = inner(w, tangent)
    assert abs(inner(list(pull(w)), v) - expected) <= 1e-9 * (1 + abs(expected))


@explored(programs(SMOOTH), few=8, many=600)
def test_linearize_and_its_transpose(program: Program) -> None:
    x = program.inputs(np.float64)
    v = _direction(x)
    out, push = kiln.linearize(program.function, *x)
    _, tangent = kiln.jvp(program.function, tuple(x), tuple(v))
    agree(push(*v), tangent, 1e-9)
    agree(kiln.jit(push)(*v), tangent, 1e-9)
    w = _direction(out)
    back = kiln.linear_transpose(push, *x)(w)
    agree(list(back), list(kiln.vjp(program.function, *x)[1](w)), 1e-9)


@explored(programs(REVERSE), few=10, many=800)
def test_grad_of_jit_is_jit_of_grad(program: Program) -> None:
    x = program.inputs(np.float64)
    every = _every(program)
    expected = kiln.grad(program.scalar(), every)(*x)
    agree(kiln.grad(kiln.jit(program.scalar()), every)(*x), expected, 1e-9)
    agree(kiln.jit(kiln.grad(program.scalar(), every))(*x), expected, 1e-9)
    agree(kiln.jit(kiln.grad(kiln.jit(program.scalar()), every))(*x), expected, 1e-9)


@explored(programs(REVERSE), few=8, many=600)
def test_checkpoint_changes_no_gradient(program: Program) -> None:
    x = program.inputs(np.float64)
    every = _every(program)
    expected = kiln.grad(program.scalar(), every)(*x)
    agree(kiln.grad(kiln.checkpoint(program.scalar()), every)(*x), expected, 1e-9)
    agree(kiln.jit(kiln.grad(kiln.checkpoint(program.scalar()), every))(*x), expected, 1e-9)


@explored(programs(SMOOTH, steps=5), few=6, many=500)
def test_second_derivatives(program: Program) -> None:
    x = program.inputs(np.float64)
    v = _direction(x)
    every = _every(program)
    gradient = kiln.grad(program.scalar(), every)
    _, forward_over_reverse = kiln.jvp(gradient, tuple(x), tuple(v))
    agree(forward_over_reverse, _difference(gradient, x, v), 1e-4)

    def slope(*xs: Any) -> Any:
        return sum(jnp.sum(a * b) for a, b in zip(gradient(*xs), v, strict=True))

    agree(kiln.grad(slope, every)(*x), forward_over_reverse, 1e-8)
    agree(kiln.jit(kiln.grad(slope, every))(*x), forward_over_reverse, 1e-8)


@explored(programs(SMOOTH, steps=4), few=4, many=200)
def test_jacobians_forwards_and_backwards(program: Program) -> None:
    x = program.inputs(np.float64)
    forwards = kiln.jacfwd(program.function, _every(program))(*x)
    agree(kiln.jacrev(program.function, _every(program))(*x), forwards, 1e-9)
