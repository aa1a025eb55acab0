"""Writes of which a flag decides whether they count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.control.regions.selected_writes import without_copies
from kiln.ir.analysis.checker import check
from kiln.ops.elements.elementwise import select_n_p

SIZE = 12


def put(x: Any, i: Any, v: Any) -> Any:
    return x.at[i].set(v)


def update(x: Any, i: Any, v: Any) -> Any:
    return lax.dynamic_update_slice(x, jnp.stack([v, v + 1]), (i,))


def twice(x: Any, i: Any, v: Any) -> Any:
    return update(put(x, 2 * i, v), i, v)


WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "set": put,
    "dropped": lambda x, i, v: x.at[i + 8].set(v, mode="drop"),
    "clipped": lambda x, i, v: x.at[i + 8].set(v, mode="clip"),
    "rows of indices": lambda x, i, v: x.at[jnp.stack([i, i, 2 * i])].set(v),
    "update": update,
    "twice": twice,
}


def chosen(write: Any, *, if_true: bool) -> Callable[..., Any]:
    def body(i: Any, state: Any) -> Any:
        x, flag, total = state
        # Read before and after, from what was there and from what is.
        total = total + x[i]
        new = write(x, i, total + 5.0)
        x = jnp.where(flag, new, x) if if_true else jnp.where(flag, x, new)
        return x, ~flag, total + x[i]

    def run(x: Any, flag: Any) -> Any:
        return lax.fori_loop(0, 6, body, (x, flag, 0.0))

    return run


def stepwise(write: Any, *, if_true: bool) -> Callable[..., Any]:
    run = chosen(write, if_true=if_true)

    def found(x: Any, flag: Any) -> Any:
        with kiln.disable_jit():
            return run(x, flag)

    return found


def chooses_whole_arrays(jaxpr: Any, size: int = SIZE) -> bool:
    return any(
        eqn.primitive is select_n_p and size in eqn.outvars[0].aval.shape
        for loop in jaxpr.eqns
        if "jaxpr" in loop.params
        for eqn in loop.params["jaxpr"].eqns
    )


@pytest.mark.parametrize("if_true", [True, False])
@pytest.mark.parametrize("name", WAYS)
def test_values_are_those_of_the_choice(name: str, if_true: bool) -> None:
    run, plain = (make(WAYS[name], if_true=if_true) for make in (chosen, stepwise))
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(3, SIZE)).astype(np.float32))
    flags = jnp.array([True, False, True])
    expected = [plain(x, flag) for x, flag in zip(xs, flags, strict=True)]
    assert not chooses_whole_arrays(kiln.make_jaxpr(run)(xs[0], flags[0]))
    for x, flag, want in zip(xs, flags, expected, strict=True):
        for got, number in zip(run(x, flag), want, strict=True):
            np.testing.assert_array_equal(got, number)
    mapped = kiln.vmap(run)
    assert not chooses_whole_arrays(kiln.make_jaxpr(mapped)(xs, flags))
    for got, numbers in zip(mapped(xs, flags), zip(*expected, strict=True), strict=True):
        np.testing.assert_array_equal(got, np.stack([np.asarray(x) for x in numbers]))
    one_array = kiln.vmap(run, in_axes=(None, 0))(xs[0], flags)
    for k, flag in enumerate(flags):
        np.testing.assert_array_equal(one_array[0][k], plain(xs[0], flag)[0])


@pytest.mark.parametrize("name", ["set", "update", "twice"])
def test_derivatives_are_those_of_the_choice(name: str) -> None:
    x = jnp.asarray(np.random.default_rng(1).normal(size=SIZE).astype(np.float32))
    weights = jnp.arange(1.0, SIZE + 1)
    run, plain = (make(WAYS[name], if_true=True) for make in (chosen, stepwise))
    found, want = (
        kiln.grad(lambda x, f=f: (f(x, True)[0] * weights).sum() + f(x, True)[2])(x)
        for f in (run, plain)
    )
    np.testing.assert_allclose(found, want, rtol=1e-5)


def program(fun: Any, *args: Any) -> Any:
    return kiln.make_jaxpr(fun)(*args).jaxpr


X = jnp.zeros(SIZE)


@pytest.mark.parametrize(
    "fun",
    [
        # The new array is used by others too.
        lambda x, flag: (lambda new: (jnp.where(flag, new, x), new.sum()))(x.at[1].set(1.0)),
        # What is chosen otherwise is another array.
        lambda x, flag: jnp.where(flag, x.at[1].set(1.0), 2 * x),
        # A flag of each element.
        lambda x, flag: jnp.where(x > 0, x.at[1].set(1.0), x),
        # Sums need no choice of what is there.
        lambda x, flag: jnp.where(flag, x.at[jnp.array([1, 3])].add(1.0), x),
        # Most of the array is written.
        lambda x, flag: jnp.where(flag, lax.dynamic_update_slice(x, jnp.ones(8), (1,)), x),
        # Two arrays that are both written.
        lambda x, flag: jnp.where(flag, x.at[1].set(1.0), x.at[2].set(1.0)),
    ],
)
def test_programs_that_stay_as_they_are(fun: Any) -> None:
    before = program(fun, X, True)
    assert without_copies(before) is before


def test_a_program_that_changes_is_well_formed() -> None:
    before = program(lambda x, flag: jnp.where(flag, x.at[1].set(1.0), x), X, True)
    after = without_copies(before)
    check(after)
    assert after is not before
    assert after.out_avals == before.out_avals
    assert without_copies(before) is after
