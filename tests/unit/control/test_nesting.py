"""Every construct under every transformation, nested in every order, against plain Python.

In float64, by the meaning of the primitives; a smaller selection by the compiling engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from tests.unit.control.loop_programs import (
    FIRST_ORDER,
    FORWARD_ONLY,
    REVERSIBLE,
    Plain,
    Structured,
)

X = np.array([0.7, -0.4, 1.1])
V = np.array([0.3, 0.5, -0.9])
ROWS = np.array([[0.7, -0.4, 1.1], [-0.6, 0.2, 0.1], [1.3, 0.9, -0.8]])
DEEP = np.stack([ROWS, -ROWS])


@pytest.fixture(autouse=True)
def _exact() -> Iterator[None]:
    with override(enable_x64=True, engine="reference", check=True):
        yield


def scalar(f: Any) -> Any:
    return lambda *args: (f(*args) * jnp.array([1.0, -0.5, 2.0])).sum()


def push(f: Any, x: Any, v: Any) -> Any:
    return kiln.jvp(f, (x,), (v,))[1]


def pushed(f: Any, x: Any, v: Any) -> Any:
    value, linear = kiln.linearize(f, x)
    return value, linear(v), linear(2.0 * v)


def curvature(f: Any, v: Any) -> Any:
    """Return the product of the Hessian with v, reverse over reverse."""
    return kiln.grad(lambda x: kiln.grad(scalar(f))(x) @ v)


Transformation = Callable[[Any, Any], Any]
FORWARD: dict[str, Transformation] = {
    "value": lambda t, f: f(X),
    "jit": lambda t, f: t.jit(f)(X),
    "vmap": lambda t, f: t.vmap(f)(ROWS),
    "vmap in 1 out 1": lambda t, f: t.vmap(f, in_axes=1, out_axes=1)(ROWS.T),
    "vmap vmap": lambda t, f: t.vmap(t.vmap(f))(DEEP),
    "vmap vmap 2": lambda t, f: t.vmap(t.vmap(f, in_axes=1), in_axes=2)(DEEP.T),
    "jvp": lambda t, f: kiln.jvp(f, (X,), (V,)),
    "linearize": lambda t, f: pushed(f, X, V),
    "jit jvp jit": lambda t, f: t.jit(lambda x: push(t.jit(f), x, V))(X),
    "jit linearize": lambda t, f: t.jit(lambda x: pushed(f, x, V))(X),
    "jvp jvp": lambda t, f: push(lambda x: push(f, x, V), X, V),
    "vmap jvp": lambda t, f: t.vmap(lambda x: push(f, x, V))(ROWS),
    "vmap jvp over tangents": lambda t, f: t.vmap(lambda v: push(f, X, v))(ROWS),
    "jvp vmap": lambda t, f: push(t.vmap(f), ROWS, ROWS * 0.5),
    "vmap linearize": lambda t, f: t.vmap(lambda x: pushed(f, x, V))(ROWS),
    "linearize vmap": lambda t, f: pushed(t.vmap(f), ROWS, ROWS * 0.5),
    "vmap jvp jvp": lambda t, f: t.vmap(lambda x: push(lambda y: push(f, y, x), x, V))(ROWS),
    "jvp of a closed-over value": lambda t, f: push(
        lambda w: t.vmap(lambda x: f(x * w))(ROWS), X, V
    ),
}
REVERSE: dict[str, Transformation] = {
    "grad": lambda t, f: kiln.grad(scalar(f))(X),
    "vjp": lambda t, f: kiln.vjp(f, X)[1](V),
    "jit grad": lambda t, f: t.jit(kiln.grad(scalar(f)))(X),
    "grad jit": lambda t, f: kiln.grad(t.jit(scalar(f)))(X),
    "jit vjp": lambda t, f: t.jit(lambda x, v: kiln.vjp(f, x)[1](v))(X, V),
    "jit grad jit": lambda t, f: t.jit(kiln.grad(t.jit(scalar(f))))(X),
    "vmap grad": lambda t, f: t.vmap(kiln.grad(scalar(f)))(ROWS),
    "vmap grad in 1": lambda t, f: t.vmap(kiln.grad(scalar(f)), in_axes=1)(ROWS.T),
    "grad vmap": lambda t, f: kiln.grad(lambda x: scalar(t.vmap(f))(x))(ROWS),
    "jit vmap grad jit": lambda t, f: t.jit(t.vmap(kiln.grad(t.jit(scalar(f)))))(ROWS),
    "vmap vjp over cotangents": lambda t, f: t.vmap(kiln.vjp(f, X)[1])(ROWS),
    "vmap vmap grad": lambda t, f: t.vmap(t.vmap(kiln.grad(scalar(f))))(DEEP),
    "jvp grad": lambda t, f: push(kiln.grad(scalar(f)), X, V),
    "grad jvp": lambda t, f: kiln.grad(lambda x: scalar(lambda y: push(f, y, V))(x))(X),
    "grad grad": lambda t, f: curvature(f, V)(X),
    "jit grad jit grad jit": lambda t, f: t.jit(
        kiln.grad(lambda x: t.jit(kiln.grad(t.jit(scalar(f))))(x) @ V)
    )(X),
    "linearize grad": lambda t, f: pushed(kiln.grad(scalar(f)), X, V),
    "vmap grad grad": lambda t, f: t.vmap(curvature(f, V))(ROWS),
    "vmap jvp grad": lambda t, f: t.vmap(lambda x: push(kiln.grad(scalar(f)), x, x))(ROWS),
    "grad vmap grad": lambda t, f: kiln.grad(
        lambda x: (t.vmap(kiln.grad(scalar(f)))(x) * ROWS).sum()
    )(ROWS),
    "jvp vmap grad": lambda t, f: push(t.vmap(kiln.grad(scalar(f))), ROWS, ROWS * 0.5),
    "grad of a closed-over value": lambda t, f: kiln.grad(
        lambda w: t.vmap(lambda x: scalar(f)(x * w))(ROWS).sum()
    )(X),
    "vmap of grad of a closed-over value": lambda t, f: t.vmap(
        lambda w: kiln.grad(lambda x: scalar(f)(x * w))(X)
    )(ROWS),
}


def agree(program: Any, transformation: Transformation) -> None:
    found = transformation(Structured, lambda x: program(Structured, jnp.asarray(x)))
    wanted = transformation(Plain, lambda x: program(Plain, jnp.asarray(x)))
    found, wanted = kiln.tree.leaves(found), kiln.tree.leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-11)


# The others differ from these in what they nest, not in which rules meet: `make test-full`.
ALWAYS = {
    "jit",
    "vmap in 1 out 1",
    "vmap vmap 2",
    "jit jvp jit",
    "vmap jvp",
    "jvp vmap",
    "vmap linearize",
    "grad",
    "jit grad jit",
    "vmap grad",
    "grad vmap",
    "jit vmap grad jit",
    "grad grad",
    "jvp grad",
    "grad vmap grad",
    "vmap of grad of a closed-over value",
}


def over(transformations: dict[str, Transformation]) -> Any:
    return pytest.mark.parametrize(
        "transformation",
        [
            pytest.param(name, marks=() if name in ALWAYS else pytest.mark.full)
            for name in transformations
        ],
    )


@over(FORWARD)
@pytest.mark.parametrize("program", [*REVERSIBLE, *FORWARD_ONLY])
def test_forward(program: str, transformation: str) -> None:
    agree({**REVERSIBLE, **FORWARD_ONLY}[program], FORWARD[transformation])


@over(REVERSE)
@pytest.mark.parametrize("program", REVERSIBLE)
def test_reverse(program: str, transformation: str) -> None:
    agree(REVERSIBLE[program], REVERSE[transformation])


@pytest.mark.parametrize("transformation", ["value", "vmap", "jit", *list(REVERSE)[:12]])
@pytest.mark.parametrize("program", FIRST_ORDER)
def test_first_order(program: str, transformation: str) -> None:
    agree(FIRST_ORDER[program], {**FORWARD, **REVERSE}[transformation])


# One of each kind of loop and branch in another; what they mean is tested above for all.
COMPILED = {
    *("scan_weights", "cond_in_scan", "scan_in_cond", "while_constant", "checkpoints", "prefixes"),
}


@pytest.mark.parametrize(
    "program",
    [pytest.param(p, marks=() if p in COMPILED else pytest.mark.full) for p in REVERSIBLE],
)
@pytest.mark.parametrize(
    "transformation",
    ["jit vmap grad jit", pytest.param("jit grad jit grad jit", marks=pytest.mark.full)],
)
def test_compiled_reverse(program: str, transformation: str) -> None:
    with override(engine="xla"):
        agree(REVERSIBLE[program], REVERSE[transformation])


@pytest.mark.parametrize("program", FORWARD_ONLY)
@pytest.mark.parametrize("transformation", ["jit jvp jit", "vmap"])
def test_compiled_forward(program: str, transformation: str) -> None:
    with override(engine="xla"):
        agree(FORWARD_ONLY[program], FORWARD[transformation])
