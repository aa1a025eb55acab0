"""`x[ds(start, size)]` and `x.at[ds(start, size)]` give jax's values, dtypes and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kiln
import kiln.numpy
from kiln.base.options.config import override
from tests.differential.oracle import Case, Topic

READ = """x[ds(1, 3)]; x[ds(8, 5)]; x[ds(-2, 2)]; x[ds(i, 2)]; x[ds(i + 5, 3)]; x[ds(i - 6, 3)]
x[ds(i, 3, 2)]; x[ds(1, 3, 2)]; x[ds(i + 2, 3, 2)]; x[ds(6, 3, 2)]; x[ds(i - 7, 3, 2)]; x[ds(3)]
x[ds(None)]; x[ds(i, 0)]; x[ds(1, 0)]; x[ds(i.astype('uint8'), 2)]; m[1, ds(i, 2)]; m[..., ds(i, 1)]
m[ds(i - 3, 2), ds(1, 2)]; m[ds(i - 3, 2), ds(i - 2, 3)]; m[None, ds(i - 3, 2)]; m[ds(i - 3, 2), i]
m[ds(0, 2), jnp.array([0, 1])]; m[ds(i - 3, 2), jnp.array([0, 1])]; m[ds(i - 3, 2), 2:4]
m[ds(i - 3, 2), ::2]; m[ds(i - 3, 2), ::-1]; m[ds(i - 3, 2), 0]; m[ds(i - 3, 2), mask]
m[jnp.array([0, 1]), ds(i - 3, 2)]; m[jnp.array([0, 1]), None, ds(i - 3, 2)]"""
WRITE = """x.at[ds(1, 2)].add(5); x.at[ds(i, 2)].set(0); x.at[ds(i + 5, 3)].set(0)
x.at[ds(8, 5)].set(0); x.at[ds(-2, 2)].set(0); x.at[ds(i - 6, 2)].set(0)
x.at[ds(i + 4, 3)].set(0, mode='clip'); x.at[ds(i, 3, 2)].set(0); x.at[ds(i + 2, 3, 2)].set(0)
m.at[ds(i - 3, 2), ds(1, 2)].set(0); m.at[ds(i - 3, 2), ds(i - 2, 2)].set(0)
m.at[ds(i - 3, 2), jnp.array([0, 1])].set(0); m.at[ds(i - 3, 2), jnp.array([0, 9])].set(0)
m.at[1, ds(i - 3, 2)].add(1); m.at[ds(i - 3, 2), ::2].mul(0); x.at[ds(i, 2)].apply(lambda v: -v)
m.at[ds(i - 3, 2)].set(jnp.arange(6)); x.at[ds(i, 2)].get(); x.at[ds(i + 4, 4)].get(mode='fill')
x.at[ds(8, 4)].get(mode='fill'); x.at[ds(i + 2, 3, 2)].get(mode='fill', fill_value=-1)
x.at[ds(i + 2, 3, 2)].get(mode='clip'); (x * 1.0).at[ds(i + 4, 4)].get(mode='fill')"""
TRANSFORMED = """jax.vmap(lambda j: x[ds(j, 2)])(jnp.arange(3)); jax.jit(lambda j: x[ds(j, 2)])(9)
jax.vmap(lambda j: x.at[ds(j, 2)].set(0))(jnp.arange(7, 10))
jax.grad(lambda v: v[ds(i, 2)].sum())(jnp.ones(6))
jax.grad(lambda v: v[ds(i - 3, 3, 2)].sum())(jnp.ones(6))
jax.grad(lambda v: v.at[ds(i, 2)].set(0.0).sum())(jnp.ones(6))"""
ERRORS = """x[ds(i, 11)]; x[ds(0.5, 2)]; x[ds(True, 2)]; x[ds(jnp.arange(2), 2)]; ds(0, 1, -1)"""


def value(expression: str) -> Any:
    def run(library: Any) -> Any:
        jnp = library.numpy
        names = {
            "jax": library,
            "jnp": jnp,
            "ds": library.ds,
            "x": jnp.arange(10),
            "m": jnp.arange(24).reshape(4, 6),
            "i": jnp.int32(4),
            "mask": jnp.arange(6) > 2,
        }
        return eval(expression, names)

    return run


def cases() -> Iterator[Case]:
    groups = {"read": READ, "write": WRITE, "transformed": TRANSFORMED, "errors": ERRORS}
    for group, text in groups.items():
        for expression in text.replace("\n", "; ").split("; "):
            yield Case(group, expression, value(expression))


TOPIC = Topic("dynamic_parts", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)


@pytest.mark.parametrize("group", [g for g in TOPIC.groups if g != "errors"])
def test_compiled_as_jax(group: str) -> None:
    with override(engine="xla"):
        TOPIC.check(group, kiln)
