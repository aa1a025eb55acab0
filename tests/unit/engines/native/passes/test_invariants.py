"""What loops compute once: invariant statements, and transposed operands of sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.engines.native.loop_ir.buffers import nodes, reads
from kiln.engines.native.loop_ir.statements import Function, Loop, Nest, Reduce, While, walk

X = np.linspace(0.1, 1, 32, dtype=np.float32)


@pytest.fixture(autouse=True)
def _on_the_native_engine() -> Iterator[None]:
    with override(engine="native"):
        yield


def loops_of(fun: Any, *args: Any) -> Function:
    """Return the loops of a function, improved."""
    function: Function = kiln.jit(fun).lower(*args).compile().runtime_executable().function
    return function


def operations(function: Function) -> set[str]:
    """Return the operations inside the loops of a function."""
    found: set[str] = set()
    for loop in function.body:
        for each in walk(loop.body) if isinstance(loop, (Loop, While)) else ():
            if isinstance(each, Nest):
                found |= {x.op for x in nodes(each)}
                found |= {"reduce" for e in each.effects if isinstance(e, Reduce)}
    return found


def repeated(x: Any, y: Any) -> Any:
    """Return a sum to which each iteration adds the same."""
    return lax.fori_loop(0, 10, lambda i, s: s * 0.5 + jnp.exp(x * 2) + jnp.sum(x) + i, y)


def test_what_is_dear_is_computed_before_the_loop() -> None:
    assert "exp" not in operations(loops_of(repeated, X, X))
    assert "reduce" not in operations(loops_of(repeated, X, X))
    expected = X.copy()
    for i in range(10):
        expected = expected * 0.5 + np.exp(X * 2) + X.sum() + i
    np.testing.assert_allclose(kiln.jit(repeated)(X, X), expected, 1e-5)


def test_what_changes_stays() -> None:
    fun = lambda x: lax.fori_loop(0, 10, lambda i, s: jnp.exp(-s) + x, x)
    assert "exp" in operations(loops_of(fun, X))


def test_python_is_called_in_each_turn() -> None:
    seen: list[int] = []

    def fun(x: Any) -> Any:
        def step(_: Any, s: Any) -> Any:
            kiln.debug.callback(lambda v: seen.append(1), x)
            return s + 1

        return lax.fori_loop(0, 3, step, x)

    kiln.jit(fun)(X)
    assert seen == [1, 1, 1]


def test_sums_along_rows_become_sums_of_vectors() -> None:
    rng = np.random.default_rng(0)
    w = (rng.normal(size=(32, 32)) / 6).astype(np.float32)
    fun = lambda w, x: lax.fori_loop(0, 20, lambda _, s: w @ s + x, x)
    function = loops_of(fun, w, X)
    (loop,) = [each for each in function.body if isinstance(each, Loop)]
    assert function.inputs[0] not in {b for each in loop.body for b in reads(each)}
    expected = X.astype(np.float64)
    for _ in range(20):
        expected = w.astype(np.float64) @ expected + X
    np.testing.assert_allclose(kiln.jit(fun)(w, X), expected, 1e-4, 1e-4)


def test_what_a_kernel_reads_is_computed_before_the_loop() -> None:
    w = np.eye(40, dtype=np.float32)

    def powers(w: Any, x: Any) -> Any:
        return lax.fori_loop(0, 10, lambda i, x: (2 * w) @ x, x)

    assert operations(loops_of(powers, w, w)) <= {"load"}
    np.testing.assert_allclose(kiln.jit(powers)(w, w), w * 2**10)
