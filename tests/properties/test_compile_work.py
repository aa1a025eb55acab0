"""The work of compiling grows with a program at most linearly, counted in calls of functions."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from benchmarks.long_programs import on_a_long_stack
from kiln import lax
from kiln.base.options.config import override
from kiln.core.engines.engine import Program
from kiln.engines.native.compiler import NativeCompiler

MOST = 1.3
"""How much more work than four times is allowed for four times the program."""

Function = Callable[[Any], Any]


def nested_loops(n: int) -> Function:
    def level(k: int) -> Any:
        if k == 0:
            return lambda i, x: jnp.sin(x) + i
        inner = level(k - 1)
        return lambda i, x: lax.fori_loop(0, 3, inner, x) * 1.5

    return lambda x: lax.fori_loop(0, 3, level(n - 1), x)


def nested_whiles(n: int) -> Function:
    def level(k: int) -> Any:
        if k == 0:
            return lambda x: x * 2.0
        inner = level(k - 1)
        return lambda x: lax.while_loop(lambda x: x[0] < k, inner, x + 1.0)

    return level(n)


def nested_branches(n: int) -> Function:
    def level(k: int) -> Any:
        if k == 0:
            return jnp.sin
        inner = level(k - 1)
        return lambda x: lax.cond(x[0] > k, inner, lambda y: y * 2, x)

    return level(n)


def loops_in_turn(n: int) -> Function:
    def f(x: Any) -> Any:
        for _ in range(n):
            x = lax.fori_loop(0, 3, lambda i, x: jnp.sin(x) + i, x)
        return x

    return f


def chain(n: int) -> Function:
    def f(x: Any) -> Any:
        for _ in range(n // 2):
            x = jnp.sin(x) * 1.01
        return x

    return f


def gradient_of_a_chain(n: int) -> Function:
    return kiln.grad(lambda x: jnp.sum(chain(n)(x)))


def each_used_twice(n: int) -> Function:
    def f(x: Any) -> Any:
        a, b = x, x + 1
        for _ in range(n):
            a, b = b, a + b
        return a

    return f


def parts(n: int) -> Function:
    return lambda x: jnp.stack([x[i % 100] * i for i in range(n)])


def bodies(n: int) -> Function:
    def f(positions: Any) -> Any:
        total = []
        for i in range(n // 8):
            a = jnp.zeros(())
            for j in range(8):
                d = positions[j] - positions[i % 100]
                a = a + d / (jnp.sqrt(d * d + 1e-3)) ** 3
            total.append(a)
        return jnp.stack([jnp.zeros(()), *total])

    return f


PROGRAMS: dict[str, tuple[Callable[[int], Function], int]] = {
    "nested loops": (nested_loops, 20),
    "nested while loops": (nested_whiles, 16),
    "nested branches": (nested_branches, 16),
    "loops in turn": (loops_in_turn, 20),
    "chain": (chain, 200),
    "gradient of a chain": (gradient_of_a_chain, 300),
    "each used twice": (each_used_twice, 400),
    "parts": (parts, 50),
    "bodies": (bodies, 48),
}


def calls_of(work: Callable[[], Any]) -> int:
    """Count the calls of Python functions and generators in work."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    def run() -> None:
        gc.disable()
        sys.setprofile(note)
        try:
            work()
        finally:
            sys.setprofile(None)
            gc.enable()

    on_a_long_stack(run)
    return count


def compile_anew(f: Function) -> None:
    """Trace a function, and write its loops and its code."""
    # Options belong to a thread, and checks after each pass are not part of the work.
    with override(engine="native", check=False):
        jaxpr = kiln.make_jaxpr(f)(jnp.ones(100)).jaxpr
        NativeCompiler()._written(Program(jaxpr, "f"), measures=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_four_times_the_program_is_four_times_the_work(name: str) -> None:
    make, n = PROGRAMS[name]
    on_a_long_stack(lambda: compile_anew(make(4)))
    small = calls_of(lambda: compile_anew(make(n)))
    large = calls_of(lambda: compile_anew(make(4 * n)))
    assert large <= 4 * MOST * small


def jitted_layers(n: int) -> None:
    f: Any = jnp.sin
    f = lambda x: jnp.sin(x)
    for _ in range(n):
        f = kiln.jit(f)
    with override(check=False):
        f.trace(1.0)


def mapped_layers(n: int) -> None:
    f: Any = lambda x: jnp.sin(x)
    for _ in range(n):
        f = kiln.vmap(f, in_axes=None, out_axes=None, axis_size=1)
    f(1.0)


def jitted_and_mapped_layers(n: int) -> None:
    f: Any = lambda x: jnp.sin(x)
    for _ in range(n // 2):
        f = kiln.jit(kiln.vmap(f, in_axes=None, out_axes=None, axis_size=1))
    with override(check=False):
        f.trace(1.0)


@pytest.mark.parametrize("layers", [jitted_layers, mapped_layers, jitted_and_mapped_layers])
def test_four_times_the_layers_are_four_times_the_work(layers: Callable[[int], None]) -> None:
    on_a_long_stack(lambda: layers(4))
    small, large = calls_of(lambda: layers(60)), calls_of(lambda: layers(240))
    assert large <= 4 * MOST * small
