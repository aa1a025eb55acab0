"""What primitives that hold programs share: splitting, pulling back, dead code, masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.control.call import jit_p
from kiln.control.regions import region
from kiln.core.absent import Zero
from kiln.core.staging import eval_jaxpr, stage
from kiln.ir.analysis.checker import check
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray

F32 = ShapedArray((), np.dtype(np.float32))


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with override(engine="reference", check=True):
        yield


def recorded(fun: Any, *avals: ShapedArray) -> Jaxpr:
    jaxpr, consts = stage(fun, avals or [F32, F32])
    assert not consts
    return jaxpr


def run(jaxpr: Jaxpr, *args: float) -> list[float]:
    check(jaxpr)
    return [float(x) for x in eval_jaxpr(jaxpr, (), *map(np.float32, args))]


def test_masks() -> None:
    mask = [True, False, True]
    assert region.select_by(mask, "abc") == ["a", "c"]
    assert region.select_by(mask, "abc", False) == ["b"]
    assert region.merge(mask, "xy", "z") == ["x", "z", "y"]
    first, second = region.fill_zeros([True, False], ["t"], [F32, F32])
    assert first == "t"
    assert type(second) is Zero


def test_split_runs_what_is_known_and_keeps_what_the_rest_needs() -> None:
    jaxpr = recorded(lambda x, y: [jnp.sin(x), jnp.sin(x) * y, jnp.cos(x)])
    parts = region.split(jaxpr, [False, True])
    assert parts.unknown_out == (False, True, False)
    assert parts.residuals == 1
    *known, residual = run(parts.known, 0.5)
    np.testing.assert_allclose(known, [np.sin(0.5), np.cos(0.5)], rtol=1e-6)
    np.testing.assert_allclose(run(parts.staged, residual, 3.0), [3 * np.sin(0.5)], rtol=1e-6)
    assert region.split(jaxpr, [False, True]) is parts


def test_split_makes_results_unknown_on_demand() -> None:
    jaxpr = recorded(lambda x, y: [x * 2.0, y])
    parts = region.split(jaxpr, [False, True], [True, False])
    assert parts.unknown_out == (True, True)
    assert run(parts.staged, *run(parts.known, 3.0), 7.0) == [6.0, 7.0]


def test_pull_back() -> None:
    jaxpr = recorded(lambda w, x: [x * w, x * 3.0, w])
    back, there = region.pull_back(jaxpr, [False, True], [True, True, False])
    assert there == [True]
    assert run(back, 5.0, 1.0, 10.0) == [5.0 + 30.0]


def test_pull_back_leaves_zeros_out_unless_asked() -> None:
    jaxpr = recorded(lambda x, y: [x * 2.0])
    back, there = region.pull_back(jaxpr, [True, True], [True])
    assert there == [True, False]
    assert run(back, 3.0) == [6.0]
    back, there = region.pull_back(jaxpr, [True, True], [True], [False, True])
    assert there == [True, True]
    assert run(back, 3.0) == [6.0, 0.0]


def test_pull_back_through_calls_that_mix_linear_and_other_results() -> None:
    both = kiln.jit(lambda w, x: (jnp.exp(w), x * w))

    def f(w: Any, x: Any) -> list[Any]:
        e, y = both(w, x)
        return [e * y]

    jaxpr = recorded(f)
    assert [eqn.primitive for eqn in jaxpr.eqns][0] is jit_p
    back, _ = region.pull_back(jaxpr, [False, True], [True])
    np.testing.assert_allclose(run(back, 0.5, 2.0), [2 * 0.5 * np.exp(0.5)], rtol=1e-6)


def test_dead_results_of_a_call_go() -> None:
    jaxpr = recorded(lambda x, y: list(kiln.jit(lambda a, b: (a * 2.0, b * 3.0))(x, y)))
    clean = region.live_region(jaxpr.eqns[0], [False, True])
    assert len(clean.invars) == len(clean.outvars) == 1
    assert len(clean.params["jaxpr"].eqns) == 1
    again = region.live_region(jaxpr.eqns[0], [False, True])
    assert again.params["jaxpr"] is clean.params["jaxpr"]


def test_jaxprs_of_parameters() -> None:
    one, two = recorded(lambda x, y: [x]), recorded(lambda x, y: [y])
    assert region.jaxprs_of({"a": one, "b": (two, one), "n": 3, "t": (1, 2)}) == [one, two, one]
