"""Random writes into a carried array that a flag chooses, against the same steps one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override

STEPS = 5
MODES = (None, "drop", "clip", "promise_in_bounds")
Write = Callable[[Any, Any, Any], Any]


def _write(draw: random.Random, size: int) -> Write:
    """Return a write of a value at a step; indices may be out of bounds, and meet each other."""
    mode = draw.choice(MODES)
    outside = 0 if mode == "promise_in_bounds" else 3
    at = [draw.randint(-outside, size - 1 + outside) for _ in range(draw.randint(1, 2))]
    places = np.array(at, np.int32)

    def one(x: Any, i: Any, value: Any) -> Any:
        place = (at[0] + i) % size if mode == "promise_in_bounds" else at[0] + i
        return x.at[place].set(value, mode=mode)

    kinds: list[Write] = [
        one,
        lambda x, i, value: x.at[places].set(value + jnp.arange(len(at)), mode=mode),
        lambda x, i, value: x.at[1:3].set(value),
        lambda x, i, value: lax.dynamic_update_slice(x, jnp.full((2,), value), (at[0] + i,)),
        lambda x, i, value: x.at[-1 - i].set(value),
    ]
    return draw.choice(kinds)


def _disagreements(seed: int, engine: str) -> list[str]:
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    size = draw.choice([9, 16, 40])
    writes = [_write(draw, size) for _ in range(draw.randint(1, 3))]
    wanted = draw.random() < 0.5

    def written(x: Any, i: Any, value: Any) -> Any:
        for write in writes:
            x = write(x, i, value)
        return x

    def step(carry: Any, xs: Any) -> Any:
        (x, total), (i, flag, value) = carry, xs
        y = written(x, i, value)
        x = jnp.where(flag, y, x) if wanted else jnp.where(flag, x, y)
        return (x, total + x[i]), x[0]

    def run(x: Any, flags: Any, values: Any) -> Any:
        return lax.scan(step, (x, 0.0), (jnp.arange(STEPS), flags, values))

    def one_by_one(x: Any, flags: Any, values: Any) -> Any:
        total, firsts = jnp.float32(0), []
        for i in range(STEPS):
            x = written(x, jnp.int32(i), values[i]) if bool(flags[i]) == wanted else x
            total, firsts = total + x[i], [*firsts, x[0]]
        return (x, total), jnp.stack(firsts)

    xs = rng.normal(size=(3, size)).astype(np.float32)
    flags = rng.integers(0, 2, (3, STEPS)).astype(bool)
    values = rng.normal(size=(3, STEPS)).astype(np.float32)
    wrong = []
    with override(engine=engine, trace_warning=0):
        mapped = kiln.tree.leaves(kiln.jit(kiln.vmap(run))(xs, flags, values))
        for k in range(3):
            expected = one_by_one(jnp.asarray(xs[k]), flags[k], jnp.asarray(values[k]))
            alone = kiln.tree.leaves(kiln.jit(run)(xs[k], flags[k], values[k]))
            for got, stack, want in zip(alone, mapped, kiln.tree.leaves(expected), strict=True):
                if not (np.array_equal(got, want) and np.array_equal(stack[k], want)):
                    wrong.append(f"seed {seed}, example {k}")
    return wrong


@pytest.mark.parametrize("engine", ["native", "xla"])
def test_a_few(engine: str) -> None:
    seeds = range(20) if engine == "native" else range(3)
    assert [x for seed in seeds for x in _disagreements(seed, engine)] == []


@pytest.mark.full
@pytest.mark.parametrize("engine", ["native", "xla"])
@pytest.mark.parametrize("part", range(6))
def test_many(part: int, engine: str) -> None:
    seeds = range(20 * part, 20 * part + 20)
    assert [x for seed in seeds for x in _disagreements(seed, engine)] == []
