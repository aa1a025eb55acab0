"""Slices of axes whose sizes, bounds and steps are named: one program for all of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.config import override
from kiln.errors import InconclusiveSizeError

BOUNDS = ("None", "0", "2", "b", "2 * b + 2", "-2", "-b", "-2 * b - 2", "-4")
STEPS = ("1", "2", "b", "-1", "-2", "-b")
SIZES = ((16, 8), (3, 5), (1, 1))


def _agrees(start: str, stop: str, step: str) -> bool:
    text = f"(x[{start}:{stop}:{step}], x.at[{start}:{stop}:{step}].add(1))"
    made: dict[str, Any] = {}
    exec(f"def f(x, y):\n    b = y.shape[0]\n    return {text}", made)
    f = made["f"]
    named = kiln.jit(f, abstracted_axes=(("c",), ("b",)))
    for c, b in SIZES:
        x, y = np.arange(c, dtype=np.float32), np.ones(b)
        for found, expected in zip(named(x, y), f(jnp.asarray(x), y), strict=True):
            if not np.array_equal(found, expected):
                return False
    return True


@pytest.mark.parametrize("step", STEPS)
def test_as_with_numbers(step: str) -> None:
    pairs = [*itertools.product(BOUNDS, repeat=2)]
    with override(trace_warning=0):
        wrong = [pair for pair in pairs[STEPS.index(step) :: 6] if not _agrees(*pair, step)]
    assert wrong == []


@pytest.mark.full
@pytest.mark.parametrize("engine", ["native", "xla"])
@pytest.mark.parametrize("step", STEPS)
def test_all_of_them(step: str, engine: str) -> None:
    pairs = itertools.product(BOUNDS, repeat=2)
    with override(engine=engine, trace_warning=0):
        assert [pair for pair in pairs if not _agrees(*pair, step)] == []


def test_what_fits_stays_a_slice() -> None:
    def jaxpr_of(fun: Any) -> str:
        return str(kiln.make_jaxpr(fun, abstracted_axes=("n",))(jnp.ones(4)))

    for fun in (
        lambda x: x[1:],
        lambda x: x[: x.shape[0] // 2],
        lambda x: x[::-1],
        lambda x: x[::-2],
        lambda x: x[::3],
    ):
        assert "gather" not in jaxpr_of(fun)
    assert "gather" in jaxpr_of(lambda x: x[-2:0:-1])


def test_signs_must_be_known() -> None:
    for fun in (lambda x: x[x.shape[0] - 2 :], lambda x: x[:: x.shape[0] - 2]):
        with pytest.raises(InconclusiveSizeError):
            kiln.make_jaxpr(fun, abstracted_axes=("n",))(jnp.ones(4))
