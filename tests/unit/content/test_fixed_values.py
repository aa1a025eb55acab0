"""Values that mean the same whenever they are named."""

from __future__ import annotations

import functools
import inspect
import math
import operator
import threading
import time
import types
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.content import fixed_values
from kiln.content.fixed_values import is_fixed, is_kiln_module


@pytest.mark.parametrize(
    "value",
    [
        *(len, range, math.sin, operator.add, ValueError, np.float32, np.generic, jnp.float32),
        *(jnp.sin, jnp.bitwise_and, kiln.jit, kiln.lax.add_p, jnp.finfo, jnp.r_, kiln.Array),
        *(kiln.lax.fori_loop, kiln.lax.scan, kiln.vmap, kiln.grad, kiln.checkpoint, kiln.nn.gelu),
        *(kiln.enable_x64, kiln.log_compiles),
    ],
)
def test_fixed(value: Any) -> None:
    assert is_fixed(value)


@pytest.mark.parametrize(
    "value",
    [
        *(print, open, id, hash, getattr, time.time, np.random.rand, operator.attrgetter, object),
        *(kiln.config, kiln.devices, jnp.load, jnp.set_printoptions, kiln.clear_caches, 1, "a"),
        *(lambda: None, kiln.jit(len), kiln.live_arrays),
    ],
)
def test_not_fixed(value: Any) -> None:
    assert not is_fixed(value)


@pytest.mark.parametrize(
    "value", [jnp.tan, jnp.add, kiln.lax.fori_loop], ids=["tan", "add", "loop"]
)
@pytest.mark.parametrize("met_before", [True, False])
def test_attributes_of_users(monkeypatch: Any, value: Any, met_before: bool) -> None:
    """A function with an attribute of the user's is not a fixed value, whenever it was set."""
    if met_before:
        assert is_fixed(value)
    else:
        _forget(monkeypatch)
    value.note = [1]
    try:
        assert not is_fixed(value)
    finally:
        del value.note
    assert is_fixed(value)


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing have been asked for yet."""
    for name, nothing in (
        *(("_fixed", {}), ("_noted", {}), ("_spaces", {}), ("_seen", set()), ("_count", 0)),
    ):
        monkeypatch.setattr(fixed_values, name, nothing)


@pytest.mark.parametrize("value", [jnp.finfo, kiln.Array, jnp.add], ids=["finfo", "Array", "add"])
def test_what_is_changed_for_a_while_is_fixed_again(
    monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    _forget(monkeypatch)
    assert is_fixed(value)
    with monkeypatch.context() as changed:
        changed.setattr(value, "reduce", lambda x: x, raising=False)
        assert not is_fixed(value)
    assert is_fixed(value)


@pytest.mark.parametrize("value", [kiln.Array, jnp.add], ids=["Array", "add"])
def test_what_is_first_met_changed_is_no_value_afterwards(
    monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    """It was read as it was then: between two readings it is the same, or no value."""
    _forget(monkeypatch)
    assert is_fixed(jnp.sin)
    with monkeypatch.context() as changed:
        changed.setattr(value, "reduce", lambda x: x, raising=False)
        first = is_fixed(value)
        changed.setattr(value, "reduce", lambda x: x + 1, raising=False)
        assert not (first and is_fixed(value))
    assert not (first and is_fixed(value))


def test_a_function_first_met_with_an_attribute_of_the_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _forget(monkeypatch)
    assert is_fixed(jnp.sin)
    with monkeypatch.context() as changed:
        changed.setattr(jnp.finfo, "reduce", lambda x: x, raising=False)
        assert not is_fixed(jnp.finfo)
    assert is_fixed(jnp.finfo)


@pytest.mark.parametrize("function", [jnp.sin, jnp.maximum, kiln.lax.sin, kiln.nn.relu])
def test_a_method_that_users_gave_a_function_before_it_was_met(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forget(monkeypatch)
    results = []
    for factor in (2.0, 3.0):
        by_factor = functools.partial(operator.mul, factor)
        monkeypatch.setattr(function, "reduce", by_factor, raising=False)
        results.append(float(kiln.jit(lambda x: function.reduce(x))(1.0)))
    assert results == [2.0, 3.0]


def test_usual_functions_are_known_without_learning_all(monkeypatch: pytest.MonkeyPatch) -> None:
    _forget(monkeypatch)
    monkeypatch.setattr(fixed_values, "_learn", lambda: pytest.fail("it learned"))
    functions = (jnp.sin, jnp.where, kiln.nn.relu, kiln.lax.fori_loop, kiln.grad, jnp.sum)
    others = (jnp.maximum, jnp.add, kiln.lax.sin, kiln.lax.max, jnp.float32, kiln.Array)
    for value in functions + others:
        assert is_fixed(value)
    for other in (_forget, pytest, pytest.MonkeyPatch, [], object(), "text"):
        assert not is_fixed(other)


def test_no_function_is_judged_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    _forget(monkeypatch)
    assert is_fixed(jnp.sin)
    assert id(jnp.cos) not in fixed_values._fixed
    assert is_fixed(jnp.cos)
    assert not is_fixed(jnp.load)
    assert not is_fixed(jnp.load)


def test_a_class_changed_after_its_first_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """However late a class is first asked for: between two readings it is the same, or no value."""
    _forget(monkeypatch)
    assert is_fixed(jnp.sin)
    monkeypatch.setattr(jnp.finfo, "extra", 1, raising=False)
    first = is_fixed(jnp.finfo)
    monkeypatch.setattr(jnp.finfo, "extra", 2)
    assert not (first and is_fixed(jnp.finfo))


def test_functions_that_only_look_like_kilns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Being in a module of kiln under a name is what counts, for equal code as well."""
    _forget(monkeypatch)
    for kilns in (kiln.vmap, jnp.broadcast_shapes):
        function = inspect.unwrap(kilns)
        again = types.FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        again.__dict__.update(vars(function))
        again.__module__ = function.__module__
        assert not is_fixed(again)
        assert is_fixed(kilns)


def test_many_threads_ask_first(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [jnp.sin, jnp.cos, kiln.grad, jnp.finfo, kiln.lax.add_p] * 20
    for _ in range(5):
        _forget(monkeypatch)
        start = threading.Barrier(4)
        found: list[bool] = []

        def ask(start: Any = start, found: Any = found) -> None:
            start.wait()
            found.extend(map(is_fixed, values))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [True] * (4 * len(values))


def test_methods_that_are_exchanged(monkeypatch: Any) -> None:
    assert is_fixed(jnp.add)
    for method in (lambda x: x, lambda x: x + 1):
        monkeypatch.setattr(jnp.add, "reduce", method)
        assert not is_fixed(jnp.add)


def test_modules_of_kiln() -> None:
    assert is_kiln_module(jnp)
    assert not is_kiln_module(math)
    assert not is_kiln_module(types.ModuleType("kiln.numpy"))
