"""Calls of a function on several numbers are one call on a vector, with the same bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp

STEPS = 3


def steps_of(step: Callable[[list[Any]], list[Any]], count: int) -> Callable[[Any], Any]:
    """Return a scan whose carry is the numbers of an array."""

    def program(start: Any) -> Any:
        def body(numbers: Any, _: Any) -> Any:
            return tuple(step(list(numbers))), None

        numbers, _ = kiln.lax.scan(body, tuple(start[i] for i in range(count)), None, STEPS)
        return jnp.stack(numbers)

    return program


def calls(program: Callable[..., Any], *given: Any) -> list[str]:
    text = kiln.jit(program).lower(*given).compile().as_text("llvm")
    return re.findall(r"call [^@]*@((?:sin|cos|exp|log|atan2|tanh)\.\w+)\(", text)


def test_numbers_are_called_together() -> None:
    def step(x: list[Any]) -> list[Any]:
        return [jnp.sin(each) + 0.1 * jnp.exp(-each * each) for each in x]

    found = calls(steps_of(step, 6), jnp.arange(6.0))
    assert not [name for name in found if name.endswith("x1")]
    assert {name.partition(".")[0] for name in found} == {"sin", "exp"}


def test_numbers_that_depend_on_each_other_are_called_in_turn() -> None:
    def step(x: list[Any]) -> list[Any]:
        once = [jnp.sin(each) for each in x]
        return [jnp.sin(once[i] + once[i - 1]) for i in range(len(x))]

    found = calls(steps_of(step, 4), jnp.arange(4.0))
    assert found == ["sin.f32x4"] * 2


@pytest.mark.parametrize(
    ("count", "dtype"), [(5, np.float32), (17, np.float32), (9, np.float64), (5, np.float16)]
)
def test_the_bits_are_those_of_arrays(count: int, dtype: Any) -> None:
    def step(x: Any) -> Any:
        once = jnp.sin(x) + jnp.cos(x * 3) * jnp.tanh(x)
        return jnp.atan2(once, jnp.log1p(jnp.abs(x))) + x * 0.5

    def step_of_numbers(x: list[Any]) -> list[Any]:
        return [step(each) for each in x]

    def whole(x: Any) -> Any:
        return kiln.lax.fori_loop(0, STEPS, lambda _, y: step(y), x)

    start = np.random.default_rng(4).standard_normal(count) * 10
    start[:4] = 3e4, np.nan, -np.inf, 0.0
    with kiln.enable_x64(True):
        given = jnp.asarray(start.astype(dtype))
        expected = np.asarray(kiln.jit(whole)(given))
        got = np.asarray(kiln.jit(steps_of(step_of_numbers, count))(given))
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
