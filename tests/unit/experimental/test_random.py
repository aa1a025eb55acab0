"""A generator that counts what was drawn: other numbers each time, the same ones for a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.experimental import random
from kiln.experimental.random import StatefulPRNG, stateful_rng


def test_draws_are_those_of_keys_folded_with_the_count() -> None:
    rng, key = stateful_rng(3), kiln.random.key(3)
    for i in range(3):
        wanted = kiln.random.uniform(kiln.random.fold_in(key, i), (2,), float, -1, 1)
        assert rng.uniform(-1, 1, 2).tolist() == wanted.tolist()
    again = stateful_rng(3)
    assert again.uniform(-1, 1, 2).tolist() != rng.uniform(-1, 1, 2).tolist()


def test_jit_and_loops_count_on() -> None:
    rng, jitted, looped = stateful_rng(5), stateful_rng(5), stateful_rng(5)
    wanted = [float(rng.normal(2, 3)) for _ in range(4)]
    draw = kiln.jit(lambda rng: rng.normal(2, 3))
    np.testing.assert_allclose([float(draw(jitted)) for _ in range(4)], wanted, rtol=1e-6)
    _, found = lax.scan(lambda _, __: (None, looped.normal(2, 3)), None, length=4)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_vmap_takes_what_split_returns() -> None:
    rng, other = stateful_rng(7), stateful_rng(7)
    wanted = [float(child.random()) for child in rng.spawn(3)]
    assert kiln.vmap(lambda rng: rng.random())(other.split(3)).tolist() == wanted
    with pytest.raises(ValueError, match="addupdate operation with vmapped value"):
        kiln.vmap(lambda rng, x: x + rng.random(), in_axes=(None, 0))(rng, jnp.zeros(3))


def test_shapes_and_dtypes() -> None:
    rng = stateful_rng(11)
    whole = rng.integers(5, size=(2, 40), dtype=jnp.int8)
    assert (whole.shape, whole.dtype, set(np.unique(whole))) == ((2, 40), jnp.int8, {0, 1, 2, 3, 4})
    assert rng.integers(np.array([2, 7]), 9).shape == (2,)
    assert rng.uniform(jnp.zeros((3, 1)), jnp.ones(2)).shape == (3, 2)
    assert rng.key((2, 2)).shape == (2, 2)


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "words": (
        lambda: StatefulPRNG(jnp.zeros(2, jnp.uint32), kiln.new_ref(0)),
        ValueError,
        "Expected base_key to be a typed PRNG key",
    ),
    "a number": (
        lambda: StatefulPRNG(kiln.random.key(0), 0),
        ValueError,
        "Expected counter to be a scalar integer ref",
    ),
    "split": (lambda: stateful_rng(0).split(2).uniform(), ValueError, "split stateful generator"),
    "no seed": (lambda: kiln.jit(lambda: stateful_rng().uniform())(), TypeError, "explicit seed"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name: str) -> None:
    fun, error, wanted = WRONG[name]
    with pytest.raises(error, match=wanted):
        fun()


def test_without_a_seed_two_generators_differ() -> None:
    assert random.stateful_rng().random(4).tolist() != random.stateful_rng().random(4).tolist()
