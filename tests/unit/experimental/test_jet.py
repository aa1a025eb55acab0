"""Derivatives along curves are repeated first derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.experimental.jet import jet, jet2

ORDER = 4
X = np.array([0.3, 0.7, 1.2])
V = np.array([1.0, -0.5, 0.25])


@kiln.custom_vjp
def reverse_only(x: Any) -> Any:
    return jnp.sin(x) * x


reverse_only.defvjp(lambda x: (reverse_only(x), x), lambda x, ct: (ct,))


@kiln.custom_jvp
def doubled_slope(x: Any) -> Any:
    return x * x


@doubled_slope.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return primals[0] ** 2, 4 * primals[0] * tangents[0]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sin, log, sqrt": lambda x: jnp.sin(x) * jnp.log(x) + jnp.sqrt(x),
    "cosh, sinh, cos": lambda x: jnp.cosh(x) * jnp.sinh(x) - jnp.cos(x),
    "tanh, logistic, exp": lambda x: jnp.tanh(x) * kiln.nn.sigmoid(x) + jnp.exp(-x),
    "quotient of both": lambda x: jnp.sin(x) / (1 + x * x),
    "number over function": lambda x: 2 / x,
    "constant powers": lambda x: x**3 + x**2.5 + x**-2,
    "variable power": lambda x: x**x + 2**x,
    "gamma, erf": lambda x: kiln.scipy.special.gammaln(x) * kiln.scipy.special.erf(x),
    "arctan2": lambda x: jnp.arctan2(x, 1 + x),
    "softmax": kiln.nn.softmax,
    "sort, max": lambda x: jnp.sort(x) ** 2 * jnp.max(x),
    "products": lambda x: jnp.outer(x, x) @ x,
    "inverse": lambda x: jnp.linalg.inv(jnp.outer(x, x) + jnp.eye(3)),
    "jit": kiln.jit(lambda x: (jnp.sin(x) * x, 3.0)[0]),
    "checkpoint": kiln.checkpoint(lambda x: jnp.sin(x) * x),
    "cond": lambda x: lax.cond(x[0] > 0, lambda x: x * x, lambda x: x, x),
    "cond of which one branch moves": lambda x: lax.cond(x[0] > 1, jnp.sin, jnp.zeros_like, x),
    "scan": lambda x: lax.scan(lambda c, y: (jnp.sin(c) * x * y, c), x, x)[1],
    "scan whose carry starts to move": lambda x: lax.scan(
        lambda c, _: (c + x, None), jnp.zeros(3), None, 3
    )[0],
    "while": lambda x: lax.while_loop(lambda c: c.sum() < 100, lambda c: c * c + x, x),
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, x),
    "custom_vjp": reverse_only,
    "vmap": kiln.vmap(lambda x: jnp.sin(x) * x),
}


def repeated(fun: Callable[[Any], Any]) -> list[Any]:
    """Return the derivatives of fun(x + t v) by t, one jvp around the other."""

    def moved(t: Any) -> Any:
        return fun(X + t * V)

    found = []
    for _ in range(ORDER):
        moved = (lambda inner: lambda t: kiln.jvp(inner, (t,), (1.0,))[1])(moved)
        found.append(moved(0.0))
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_repeated_jvps(name: str) -> None:
    fun = FUNCTIONS[name]
    # Their repeated jvps would be refused, or are the point of another test.
    plain = (lambda x: jnp.sin(x) * x) if name == "custom_vjp" else fun
    with kiln.enable_x64(True):
        line = (V, 0 * V, 0 * V, 0 * V)
        out, found = jet(fun, (X,), (line,))
        np.testing.assert_allclose(out, fun(jnp.asarray(X)), 1e-14)
        for mine, theirs in zip(found, repeated(plain), strict=True):
            np.testing.assert_allclose(mine, theirs, 1e-10, 1e-10)


def test_custom_derivatives_count() -> None:
    _, (first, second) = jet(doubled_slope, (3.0,), ((1.0, 0.0),))
    assert (float(first), float(second)) == (12.0, 4.0)


def test_coefficients_without_factorials() -> None:
    _, derivatives = jet(jnp.exp, (0.0,), ((1.0, 0.0, 0.0),))
    _, coefficients = jet2(jnp.exp, (0.0,), ((1.0, 0.0, 0.0),))
    np.testing.assert_allclose(derivatives, [1, 1, 1])
    np.testing.assert_allclose(coefficients, [1, 1 / 2, 1 / 6], 1e-6)


def test_it_can_be_compiled_mapped_and_differentiated() -> None:
    def second(x: Any) -> Any:
        return jet(jnp.sin, (x,), ((1.0, 0.0),))[1][1]

    x = jnp.array([0.3, 0.7])
    np.testing.assert_allclose(kiln.jit(second)(x), -np.sin(x), 1e-6)
    np.testing.assert_allclose(kiln.vmap(second)(x), -np.sin(x), 1e-6)
    np.testing.assert_allclose(kiln.vmap(kiln.grad(second))(x), -np.cos(x), 1e-6)


def test_high_orders_take_few_operations() -> None:
    def tenth(x: Any) -> Any:
        return jet(lambda x: jnp.tanh(jnp.sin(x) / (1 + x)), (x,), ((1.0,) + (0.0,) * 9,))[1]

    # Repeated jvps would take some 2**10 of them for each of the four functions.
    assert len(kiln.make_jaxpr(tenth)(1.0).eqns) < 1200


def test_terms_must_be_equally_many_arrays() -> None:
    with pytest.raises(ValueError, match="inconsistent lengths"):
        jet(jnp.add, (1.0, 2.0), ((1.0,), (1.0, 2.0)))
    with pytest.raises(ValueError, match="primal value for argument 0 is not an array"):
        jet(lambda x: x, ([1.0],), ((1.0,),))
    with pytest.raises(ValueError, match="term 1 for argument 0 is not an array"):
        jet(lambda x: x, (1.0,), ((1.0, [1.0]),))
