"""Loops, branches and callbacks of the native engine: results, copies, order, signals."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.control.effects.callback import io_callback
from kiln.engines.native.loop_ir.statements import Branch, Function
from tests.unit.engines.native.loop_ir.random_loops import operands, program

FEW, MANY = 24, 1224
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def _on_the_native_engine() -> Iterator[None]:
    with override(engine="native"):
        yield


def function_of(fun: Callable[..., Any], *args: Any) -> Function:
    """Return the loops of a function, improved."""
    executable = kiln.jit(fun).lower(*args).compile().runtime_executable()
    function: Function = executable.function
    return function


def reasons(fun: Callable[..., Any], *args: Any) -> list[str]:
    """Return why copies remain, but for those of inputs, which are made once."""
    return [c.reason for c in function_of(fun, *args).copies if "input" not in c.reason]


def assert_same(fun: Callable[..., Any], *args: Any, tolerance: float = 1e-5) -> None:
    """Compare results with those of XLA."""
    found = kiln.tree_util.tree_leaves(kiln.jit(fun)(*args))
    with override(engine="xla"):
        expected = kiln.tree_util.tree_leaves(kiln.jit(fun)(*args))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), tolerance, tolerance)


# Random programs.


def _agrees(seed: int) -> None:
    args, fun = operands(seed), program(seed)
    if seed % 3 == 0:
        args, fun = [np.stack([x, x + 1, -x]) for x in args], kiln.vmap(fun)
    found = kiln.jit(fun)(*args)
    with override(engine="reference"):
        expected = kiln.jit(fun)(*args)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b), f"seed {seed}")


@pytest.mark.parametrize("seed", range(FEW))
def test_random_loops_give_what_they_mean(seed: int) -> None:
    _agrees(seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(FEW, MANY, 100))
def test_many_random_loops_give_what_they_mean(first: int) -> None:
    for seed in range(first, first + 100):
        _agrees(seed)


# Carries.


def test_carries_that_change_places() -> None:
    def swapped(a: Any, b: Any) -> Any:
        return lax.fori_loop(0, 5, lambda _, s: (s[1], s[0]), (a, b))

    a, b = kiln.jit(swapped)(X, X + 1)
    np.testing.assert_array_equal(a, X + 1)
    np.testing.assert_array_equal(b, X)
    assert reasons(swapped, X, X) == ["buffers exchange their values"] * 2

    def rotated(a: Any, b: Any, c: Any) -> Any:
        return lax.fori_loop(0, 4, lambda _, s: (s[1], s[2], s[0] + s[1]), (a, b, c))

    assert_same(rotated, X, X + 1, X + 2)


def test_a_carry_that_is_turned() -> None:
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    for turn in (lambda x: x.T, lambda x: x[::-1], lambda x: jnp.roll(x, 1, 0) + x):
        assert_same(lambda x, turn=turn: lax.fori_loop(0, 3, lambda _, s: turn(s), x), square)


def test_carries_of_one_value_and_of_constants() -> None:
    def fun(x: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            a, b, c = state
            return (b * 2, b * 2, jnp.ones_like(c)), (a, c)

        return lax.scan(step, (x, x + 1, x + 2), None, length=3)

    assert_same(fun, X)


def test_inputs_are_not_written() -> None:
    x = X.copy()
    kiln.jit(lambda x: lax.fori_loop(0, 3, lambda _, s: s * 2, x))(x)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("length", [0, 1, 2])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_of_few_steps(length: int, reverse: bool) -> None:
    def fun(x: Any, xs: Any) -> Any:
        return lax.scan(lambda c, r: (c + r, (c, r * 2)), x, xs, reverse=reverse)

    assert_same(fun, X, np.ones((length, 2, 3), np.float32))


def test_a_loop_that_never_runs() -> None:
    fun = lambda x, n: lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] * 2, s[1] + 1), (x, 0))
    for n in (0, 3):
        assert_same(fun, X, np.int32(n))


def test_elementwise_carries_are_computed_in_place() -> None:
    def fun(x: Any, y: Any) -> Any:
        def step(_: Any, s: Any) -> Any:
            a, b, n = s
            return a * 0.5 + b, b - a * n, n + 1

        return lax.fori_loop(0, 100, step, (x, y, 0.0))

    assert_same(fun, X, X)
    assert reasons(fun, X, X) == []


def test_rows_of_results_are_written_in_place() -> None:
    def fun(x: Any, xs: Any) -> Any:
        return lax.scan(lambda h, r: (jnp.sum(r) * 0.1 + h, h + r), x, xs)

    xs = np.ones((7, 2, 3), np.float32)
    assert_same(fun, X, xs)
    assert reasons(fun, X, xs) == []


def test_updates_of_a_carry_touch_only_what_changes() -> None:
    def fun(x: Any) -> Any:
        def step(i: Any, s: Any) -> Any:
            return s.at[i].set(s[i] * 2 + i)

        return lax.fori_loop(0, 50, step, x)

    x = np.arange(100, dtype=np.float32)
    assert_same(fun, x)
    assert reasons(fun, x) == []


def test_updates_from_neighbors() -> None:
    one = lambda i, s: s.at[i].set(s[i - 1] * 0.5 + s[i])
    some = lambda i, s: lax.dynamic_update_slice(
        s, lax.dynamic_slice(s, (i,), (5,)) * 0.5 + lax.dynamic_slice(s, (i + 2,), (5,)), (i + 1,)
    )
    x = np.arange(100, dtype=np.float32)
    for step in (one, some):
        fun = lambda x, step=step: lax.fori_loop(1, 50, step, x)
        assert_same(fun, x)
        assert reasons(fun, x) == []


def test_branches_write_their_results_in_place() -> None:
    def fun(x: Any, n: Any) -> Any:
        def step(i: Any, s: Any) -> Any:
            return lax.cond(i % n == 0, lambda v: v * 2, lambda v: v, s)

        return lax.fori_loop(0, 10, step, x)

    assert_same(fun, X, np.int32(3))
    assert reasons(fun, X, np.int32(3)) == []


def test_a_copy_that_must_be_made_says_why() -> None:
    def fun(x: Any) -> Any:
        return lax.fori_loop(0, 10, lambda _, s: s[::-1] * 0.5 + s, x)

    assert_same(fun, np.arange(100, dtype=np.float32))
    assert reasons(fun, np.arange(100, dtype=np.float32)) == [
        "other elements of the old value are read where the new one is computed"
    ]


# Branches.


@pytest.mark.parametrize("index", [-5, 0, 1, 2, 9])
def test_switch(index: int) -> None:
    branches = [lambda x: (x, x), lambda x: (x + 1, x * 2), lambda x: (x.T.reshape(2, 3), x)]
    assert_same(lambda i, x: lax.switch(i, branches, x), np.int32(index), X)
    assert_same(lambda x: lax.switch(index, branches, x), X)


@pytest.mark.parametrize("index", [-5, 0, 1, 2, 9])
def test_cheap_branches_are_selected(index: int) -> None:
    branches = [lambda x: (x, 1), lambda x: (x + 1, 2), lambda x: (x * 2, 3)]
    fun = lambda i, x: lax.switch(i, branches, x)
    assert_same(fun, np.int32(index), np.float32(1.5))
    body = function_of(fun, np.int32(index), np.float32(1.5)).body
    assert not any(isinstance(each, Branch) for each in body)


def test_mapped_branches_and_loops() -> None:
    def fun(n: Any, x: Any) -> Any:
        y = lax.cond(n > 1, lambda v: v * 2, lambda v: v - 1, x)
        return lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] + y, s[1] + 1), (x, 0))

    assert_same(kiln.vmap(fun), np.arange(4, dtype=np.int32), np.ones((4, 3), np.float32))


# Whole programs.


def recurrent(w: Any, h: Any, xs: Any) -> Any:
    """Return the states of a recurrent network."""
    return lax.scan(lambda h, x: (jnp.tanh(h @ w + x),) * 2, h, xs)


def network() -> tuple[Any, ...]:
    """Return weights, a state, and inputs."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(8, 8)) / 4
    return tuple(x.astype(np.float32) for x in (w, np.zeros((2, 8)), rng.normal(size=(20, 2, 8))))


def test_a_recurrent_network_and_its_gradient() -> None:
    assert_same(recurrent, *network())
    loss = lambda w, h, xs: jnp.sum(recurrent(w, h, xs)[1] ** 2)
    assert_same(kiln.grad(loss, (0, 1, 2)), *network(), tolerance=1e-4)


def test_mandelbrot() -> None:
    def counts(c: Any) -> Any:
        def body(s: Any) -> Any:
            z, n, i = s
            z = z * z + c
            return z, n + (jnp.real(z) ** 2 + jnp.imag(z) ** 2 < 4), i + 1

        zero = jnp.zeros(c.shape, jnp.int32)
        return lax.while_loop(lambda s: s[2] < 30, body, (c, zero, 0))[1]

    x, y = np.meshgrid(np.linspace(-2, 1, 30), np.linspace(-1, 1, 20))
    assert_same(counts, (x + 1j * y).astype(np.complex64))


def test_elements_that_stop_by_themselves() -> None:
    def halvings(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] > 1.0, lambda s: (s[0] * 0.9, s[1] + 1), (x, 0))[1]

    # Blocks whose numbers are in registers and whose elements are not.
    assert_same(kiln.vmap(halvings), np.linspace(0, 50, 1000, dtype=np.float32))


def test_an_equation_solved_by_adaptive_steps() -> None:
    def solved(y: Any) -> Any:
        def step(s: Any) -> Any:
            t, y, h = s
            k1 = -y * y
            k2 = -((y + h * k1) ** 2)
            ok = jnp.max(jnp.abs(h * (k2 - k1) / 2)) < 1e-3
            after = jnp.where(ok, y + h * (k1 + k2) / 2, y)
            return jnp.where(ok, t + h, t), after, h * jnp.where(ok, 1.1, 0.5)

        return lax.while_loop(lambda s: s[0] < 1, step, (jnp.float32(0), y, jnp.float32(0.1)))

    assert_same(solved, np.linspace(0.5, 2, 5, dtype=np.float32))


def test_loops_within_loops() -> None:
    def fun(x: Any) -> Any:
        def outer(s: Any, r: Any) -> Any:
            inner = lax.fori_loop(0, 3, lambda i, v: v * 0.5 + r + i, s)
            grown = lax.while_loop(lambda v: jnp.sum(v) < 20, lambda v: v * 1.5 + 1, inner)
            return inner, grown

        return lax.scan(outer, x, jnp.arange(4.0))

    assert_same(fun, X)
    assert_same(kiln.vmap(fun), np.stack([X, X * 2]))


# Calls of Python.


def test_callbacks_run_in_order_within_loops() -> None:
    seen: list[float] = []

    def host(x: Any) -> Any:
        seen.append(float(x))
        return np.float32(x) * np.float32(2)

    def step(_: Any, x: Any) -> Any:
        kiln.debug.callback(lambda v: seen.append(-float(v)), x)
        declared = kiln.ShapeDtypeStruct((), "float32")
        return io_callback(host, declared, x, ordered=True)

    assert float(kiln.jit(lambda x: lax.fori_loop(0, 3, step, x))(1.0)) == 8
    assert seen == [-1, 1, -2, 2, -4, 4]


def test_an_exception_of_a_callback_is_the_cause_of_an_error() -> None:
    class OwnError(Exception):
        pass

    def host(x: Any) -> Any:
        raise OwnError("no")

    fun = kiln.jit(lambda x: kiln.pure_callback(host, kiln.ShapeDtypeStruct((), "float32"), x))
    with pytest.raises(kiln.errors.JaxRuntimeError, match="callback failed") as caught:
        fun(1.0)
    assert isinstance(caught.value.__cause__, OwnError)


def test_signals_arrive_in_endless_loops() -> None:
    class Alarm(Exception):
        pass

    def stop(*_: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for shape in ((), (64,), (5000,)):
            endless = (
                kiln.jit(
                    lambda x: lax.while_loop(lambda s: jnp.sum(s) > -1, lambda s: s * 0.5 + 1, x)
                )
                .lower(np.ones(shape, np.float32))
                .compile()
            )
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(Alarm):
                endless(np.ones(shape, np.float32))
    finally:
        signal.signal(signal.SIGALRM, before)
