"""Known values are computed while a function is traced."""

from __future__ import annotations

from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln.core import Tracer, eval_context
from kiln.core.compile_time import ensure_compile_time_eval
from kiln.errors import UnexpectedTracerError


def noting(seen: list[Any]) -> Any:
    def f(x: Any) -> Any:
        with ensure_compile_time_eval():
            known = jnp.sin(jnp.ones(2))
            traced = x + 1
            both = x + known
            called = kiln.jit(lambda y: y * 2)(known)
        seen.append([isinstance(v, Tracer) for v in (known, traced, both, called)])
        return traced + both[0]

    return f


@pytest.mark.parametrize(
    "transform",
    [
        kiln.jit,
        lambda f: lambda x: kiln.vmap(f)(jnp.stack([x, x]))[0],
        kiln.grad,
        lambda f: kiln.jit(kiln.grad(f)),
    ],
)
def test_only_what_is_known_is_computed(transform: Any) -> None:
    seen: list[Any] = []
    expected = transform(lambda x: x + 1 + (x + jnp.sin(jnp.ones(2)))[0])(2.0)
    assert abs(float(transform(noting(seen))(2.0) - expected)) < 1e-6
    assert seen[0] == [False, True, True, False]


def test_the_trace_is_the_one_in_force_on_entry() -> None:
    context = ensure_compile_time_eval()

    @kiln.jit
    def f(x: Any) -> Any:
        with context:
            known, traced = jnp.ones(3).sum(), x + 1
            with context:
                return traced + float(known)

    assert float(f(2.0)) == 6.0
    assert float(kiln.grad(f)(2.0)) == 1.0

    @ensure_compile_time_eval()
    def g(x: Any, depth: int = 0) -> Any:
        return x + 1 if depth == 3 else g(x, depth + 1)

    assert float(g(1.0)) == float(kiln.jit(g, static_argnums=1)(1.0, 0)) == 2.0


def test_programs_do_not_contain_what_was_computed() -> None:
    jaxpr = kiln.make_jaxpr(noting([]))(2.0)
    assert "sin" not in str(jaxpr)


def test_the_evaluating_context_refuses_traced_values() -> None:
    def f(x: Any) -> Any:
        with eval_context():
            return x + 1

    with pytest.raises(UnexpectedTracerError):
        kiln.jit(f)(1.0)
    with eval_context():
        assert float(jnp.add(1.0, 2.0)) == 3.0


def test_a_context_that_was_made_before_the_trace() -> None:
    known = kiln.ensure_compile_time_eval()

    def fun(x: Any) -> Any:
        with known:
            assert float(jnp.sin(0.0)) == 0
            return jnp.cos(x)

    assert float(kiln.jit(fun)(0.0)) == 1
    assert known(lambda: float(jnp.sin(0.0)))() == 0
