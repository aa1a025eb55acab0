"""The primitive behind `jit`: derived once, compiled once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.control.call import jit_p
from kiln.core.staging import stage
from kiln.execution.compilation import on_compile
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray

F32 = ShapedArray((), np.dtype(np.float32))


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with override(engine="reference", check=True):
        yield


def call(x: Any, y: Any, jaxpr: Jaxpr) -> Any:
    return jit_p.bind(x, y, jaxpr=jaxpr, name="inner")


@pytest.fixture
def inner() -> Jaxpr:
    jaxpr, _ = stage(lambda x, y: [jnp.sin(x) * y, y], [F32, F32])
    return jaxpr


def test_values(inner: Jaxpr) -> None:
    first, second = call(0.5, 2.0, inner)
    np.testing.assert_allclose(first, 2 * np.sin(0.5), rtol=1e-6)
    assert float(second) == 2.0


def test_tangents_where_something_moves(inner: Jaxpr) -> None:
    def program(f: Any) -> Any:
        (eqn,) = kiln.make_jaxpr(f)(0.5).eqns
        return eqn

    by_x = program(lambda x: kiln.jvp(lambda v: call(v, 2.0, inner), (x,), (x,)))
    by_y = program(lambda y: kiln.jvp(lambda v: call(0.5, v, inner), (y,), (y,)))
    assert (len(by_x.invars), len(by_x.outvars)) == (3, 3)
    assert (len(by_y.invars), len(by_y.outvars)) == (3, 4)


def test_only_what_depends_on_mapped_operands_is_mapped(inner: Jaxpr) -> None:
    ys = jnp.array([1.0, 2.0])
    (eqn,) = kiln.make_jaxpr(kiln.vmap(lambda x: call(x, 2.0, inner)[0]))(ys).eqns
    assert [v.aval.shape for v in eqn.outvars] == [(2,), ()]
    found = kiln.vmap(lambda y: call(0.5, y, inner)[0])(ys)
    np.testing.assert_allclose(found, np.sin(0.5) * ys, rtol=1e-6)


def test_everything_is_derived_and_compiled_once(inner: Jaxpr) -> None:
    compiled: list[str] = []
    loss = lambda x: call(x, x, inner)[0]
    stop = on_compile(lambda name, seconds: compiled.append(name))
    try:
        for _ in range(3):
            np.testing.assert_allclose(
                kiln.grad(loss)(0.5), np.cos(0.5) * 0.5 + np.sin(0.5), rtol=1e-6
            )
            kiln.vmap(kiln.grad(loss))(jnp.array([0.5, 0.7]))
            kiln.grad(kiln.grad(loss))(0.5)
            if not _:
                first = (len(compiled), len(inner.memo))
    finally:
        stop()
    assert (len(compiled), len(inner.memo)) == first
    assert len(compiled) == len([name for name in compiled if name])


def test_a_call_is_one_equation_and_its_effects_are_those_of_its_program() -> None:
    jaxpr, _ = stage(lambda x: [kiln.debug.callback(print, x)] and [x], [F32])
    eqn = kiln.make_jaxpr(lambda x: jit_p.bind(x, jaxpr=jaxpr, name="inner"))(1.0).eqns[0]
    assert eqn.effects == jaxpr.effects != frozenset()
    assert eqn.params["name"] == "inner"


def test_without_jit_the_equations_run_one_by_one(inner: Jaxpr) -> None:
    compiled: list[str] = []
    stop = on_compile(lambda name, seconds: compiled.append(name))
    try:
        with kiln.disable_jit():
            call(0.25, 3.0, inner)
    finally:
        stop()
    assert "inner" not in compiled
