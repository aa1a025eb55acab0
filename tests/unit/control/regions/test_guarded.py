"""What vmap lets examples run that they do not do: steps after the end of their loop.

What checks report of it is a matter of tests/properties/test_checked_examples.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.experimental import checkify

SIZE = 6


def _set(mode: Any) -> Any:
    return lambda xs, i: xs.at[i + 3].set(jnp.tanh(xs[i]) + 1, mode=mode)


def _window(xs: Any, i: Any) -> Any:
    # Clamped in the last steps.
    return lax.dynamic_update_slice(xs, xs[:3] + i + 1, (i,))


def _twice(xs: Any, i: Any) -> Any:
    return xs.at[jnp.array([0, 0, 2]) + i].set(i + 1.0).at[i].set(7.0)


def _slowly(xs: Any, i: Any) -> Any:
    return xs.at[i].add(2.0)


def _rows(xs: Any, i: Any) -> Any:
    return jnp.reshape(xs.reshape(2, 3).at[:, i % 3].set(i + 1.0), (-1,))


WRITES = {
    "set": _set(None),
    "clip": _set("clip"),
    "window": _window,
    "twice": _twice,
    "add": _slowly,
    "rows": _rows,
}


def _loop(write: Any) -> Any:
    def run(start: Any, xs: Any) -> Any:
        def body(carry: Any) -> Any:
            i, xs, last = carry
            after = write(xs, i)
            return i + 1, after, after[0] + last

        return lax.while_loop(lambda carry: carry[0] < SIZE - 1, body, (start, xs, 0.5))

    return run


@pytest.mark.parametrize("engine", ["native", "xla", "reference"])
@pytest.mark.parametrize("name", WRITES)
def test_examples_that_are_done_keep_what_is_there(name: str, engine: str) -> None:
    run = _loop(WRITES[name])
    starts = np.array([4, 9, 0, 2], np.int32)
    xs = np.arange(4.0 * SIZE, dtype=np.float32).reshape(4, SIZE)
    with override(engine=engine):
        outs = kiln.jit(kiln.vmap(run))(starts, xs)
        for n in range(4):
            alone = kiln.jit(run)(starts[n], xs[n])
            for out, expected in zip(outs, alone, strict=True):
                np.testing.assert_array_equal(np.asarray(out)[n], np.asarray(expected))


@pytest.mark.parametrize(("name", "whole"), [("set", 0), ("window", 0), ("twice", 0), ("add", 1)])
def test_a_step_costs_what_it_writes(name: str, whole: int) -> None:
    args = np.zeros(4, np.int32), np.zeros((4, SIZE), np.float32)
    jaxpr = kiln.make_jaxpr(kiln.vmap(_loop(WRITES[name])))(*args)
    (loop,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "while"]
    selected = [
        eqn
        for eqn in loop.params["body_jaxpr"].eqns
        if eqn.primitive.name == "select_n" and eqn.outvars[0].aval.shape == (4, SIZE)
    ]
    assert len(selected) == whole


@pytest.mark.parametrize("name", WRITES)
def test_checks_change_no_value(name: str) -> None:
    run = kiln.vmap(_loop(WRITES[name]))
    args = np.array([4, 9, 0, 2]), np.arange(4.0 * SIZE, dtype=np.float32).reshape(4, SIZE)
    for out, expected in zip(kiln.jit(run, check="nan")(*args), run(*args), strict=True):
        np.testing.assert_array_equal(np.asarray(out), np.asarray(expected))


def test_examples_that_communicate_keep_their_operands() -> None:
    def run(first: Any) -> Any:
        def body(carry: Any) -> Any:
            i, total = carry
            return i + 1, total + lax.psum(i, "examples")

        return lax.while_loop(lambda carry: carry[0] < 3, body, (first, 0))[1]

    mapped = kiln.vmap(run, axis_name="examples")
    assert kiln.jit(mapped, check="nan")(np.array([0, 2])).tolist() == [2 + 4 + 5, 2]


def test_a_step_of_a_program_that_is_not_checked_replaces_nothing() -> None:
    args = np.zeros(4, np.int32), np.zeros((4, SIZE), np.float32)
    mapped = kiln.vmap(_loop(WRITES["window"]))
    plain = str(kiln.make_jaxpr(mapped)(*args))
    with override(checks_operations=True):
        assert "argmax" in str(kiln.make_jaxpr(mapped)(*args))
    assert "argmax" not in plain
    # A check of the user's is masked by its flag.
    user = kiln.make_jaxpr(checkify.checkify(mapped))(*args)
    assert "argmax" not in str(user)


def test_keys_are_written() -> None:
    keys = kiln.random.split(kiln.random.key(0), 4)

    def run(start: Any, keys: Any) -> Any:
        def body(carry: Any) -> Any:
            i, keys = carry
            return i + 1, keys.at[i].set(kiln.random.fold_in(keys[i], i))

        return lax.while_loop(lambda carry: carry[0] < 3, body, (start, keys))[1]

    starts = np.array([3, 1])
    out = kiln.vmap(run, (0, None))(starts, keys)
    for n in range(2):
        expected = kiln.random.key_data(run(starts[n], keys))
        np.testing.assert_array_equal(kiln.random.key_data(out[n]), expected)
