"""A primitive of another library under all transformations, on all engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.ir.analysis.checker import check
from tests.unit.interpreters.outside import ENGINES, scaled_product

X, Y = np.array([1.0, 2.0, 3.0], np.float32), np.array([4.0, 5.0, 6.0], np.float32)
P = scaled_product()


@pytest.fixture(params=[*ENGINES, None], autouse=True)
def any_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    with override(engine=request.param):
        yield


def by_primitive(x: Any, y: Any) -> Any:
    product, total = P.bind(x, y, scale=3.0)
    return jnp.sin(product) + total


def by_hand(x: Any, y: Any) -> Any:
    product = 3.0 * x * y
    return jnp.sin(product) + jnp.sum(product)


def weighed(f: Any) -> Any:
    return lambda x, y: jnp.sum(f(x, y) * jnp.arange(1.0, 4.0))


TRANSFORMED = {
    "call": lambda f: f,
    "jit": kiln.jit,
    "jvp": lambda f: lambda x, y: kiln.jvp(f, (x, y), (y, x)),
    "jvp of one": lambda f: lambda x, y: kiln.jvp(lambda x: f(x, y), (x,), (y,)),
    "grad": lambda f: kiln.grad(weighed(f), (0, 1)),
    "jit of grad": lambda f: kiln.jit(kiln.grad(weighed(f), (0, 1))),
    "grad of jit": lambda f: kiln.grad(weighed(kiln.jit(f)), (0, 1)),
    "hessian": lambda f: kiln.jit(kiln.hessian(weighed(f))),
    "vmap": lambda f: lambda x, y: kiln.vmap(f, (0, None))(jnp.stack([x, y]), y),
    "vmap along 1": lambda f: lambda x, y: kiln.vmap(f, (1, None))(jnp.stack([x, y], 1), y),
    "vmap of vmap": lambda f: (
        lambda x, y: kiln.vmap(kiln.vmap(f))(jnp.array([[x, y]] * 2), jnp.array([[y, y]] * 2))
    ),
    "vmap of grad": lambda f: (
        lambda x, y: kiln.jit(kiln.vmap(kiln.grad(weighed(f)), (0, None)))(jnp.stack([x, y]), y)
    ),
    "grad of vmap": lambda f: (
        lambda x, y: kiln.grad(lambda xs: jnp.sum(kiln.vmap(f, (0, None))(xs, y) ** 2))(
            jnp.stack([x, y])
        )
    ),
    "scan": lambda f: kiln.jit(
        lambda x, y: kiln.lax.scan(lambda c, v: (f(c, v) / 100, jnp.sum(c)), x, jnp.stack([x, y]))
    ),
    "grad of scan": lambda f: kiln.grad(
        lambda x, y: jnp.sum(kiln.lax.scan(lambda c, v: (f(c, v) / 100, 0), x, y[None])[0])
    ),
    "grad of checkpoint": lambda f: kiln.grad(weighed(kiln.checkpoint(f)), (0, 1)),
    "grad of cond": lambda f: kiln.grad(
        lambda x, y: jnp.sum(kiln.lax.cond(x[0] > 0, f, lambda x, y: x + y, x, y)), (0, 1)
    ),
    "linearize": lambda f: lambda x, y: kiln.linearize(f, x, y)[1](y, x),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_it_is_what_its_function_is(name: str) -> None:
    transformed = TRANSFORMED[name]
    found, expected = transformed(by_primitive)(X, Y), transformed(by_hand)(X, Y)
    for a, b in zip(kiln.tree.leaves(found), kiln.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, 2e-5, 2e-4)


def test_its_programs_are_well_typed_and_printed() -> None:
    jaxpr = kiln.make_jaxpr(kiln.grad(weighed(by_primitive)))(X, Y)
    check(jaxpr.jaxpr)
    assert str(jaxpr).count("scaled_product[scale=3.0]") == 1


def test_it_is_linear_where_its_rules_say_so() -> None:
    product = lambda x: P.bind(x, Y, scale=2.0)[0]
    (found,) = kiln.linear_transpose(product, X)(jnp.ones(3))
    np.testing.assert_allclose(found, 2 * Y)


def test_named_sizes_pass_through_it() -> None:
    f = kiln.jit(by_primitive, abstracted_axes=({0: "n"}, {0: "n"}))
    for n in (2, 3):
        np.testing.assert_allclose(f(X[:n], Y[:n]), by_hand(X[:n], Y[:n]), 1e-5)
