"""custom_jvp: the rule replaces differentiation, under every transformation and their mixtures."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.errors import UnexpectedTracerError

X = np.array([1.0, 2.0, 3.0], np.float32)


@kiln.custom_jvp
def f(x, y=2.0):
    """Times."""
    return jnp.sin(x) * y


@f.defjvp
def f_jvp(primals, tangents):
    (x, y), (dx, _) = primals, tangents
    return f(x, y), 10.0 * jnp.cos(x) * y * dx


def expected(x):
    return 20.0 * np.cos(x)


def test_it_looks_like_the_function():
    assert f.__name__ == "f"
    assert f.__doc__ == "Times."
    assert f.__wrapped__ is f.fun
    assert "f" in repr(f)


def test_values_and_keywords():
    np.testing.assert_allclose(f(1.0), 2 * np.sin(1.0), rtol=1e-6)
    np.testing.assert_allclose(f(y=3.0, x=1.0), 3 * np.sin(1.0), rtol=1e-6)


@pytest.mark.parametrize(
    "derivative",
    [
        kiln.grad(f),
        kiln.jit(kiln.grad(f)),
        kiln.grad(kiln.jit(f)),
        kiln.jit(kiln.grad(kiln.jit(f))),
        lambda x: kiln.jvp(f, (x,), (1.0,))[1],
        lambda x: kiln.jvp(kiln.jit(f), (x,), (1.0,))[1],
    ],
)
def test_the_rule_is_used(derivative):
    np.testing.assert_allclose(derivative(1.0), expected(1.0), rtol=1e-6)


@pytest.mark.parametrize(
    "derivative",
    [
        kiln.vmap(kiln.grad(f)),
        kiln.jit(kiln.vmap(kiln.grad(kiln.jit(f)))),
        kiln.grad(lambda x: kiln.vmap(f)(x).sum()),
        kiln.grad(kiln.jit(lambda x: kiln.vmap(f)(x).sum())),
        kiln.grad(lambda x: kiln.vmap(kiln.jit(f))(x).sum()),
        kiln.grad(lambda x: kiln.vmap(kiln.vmap(f))(x[None]).sum()),
    ],
)
def test_mapped(derivative):
    np.testing.assert_allclose(derivative(X), expected(X), rtol=1e-5)


def test_second_order():
    second = -20.0 * np.sin(1.0)
    np.testing.assert_allclose(kiln.grad(kiln.grad(f))(1.0), second, rtol=1e-5)
    np.testing.assert_allclose(kiln.grad(kiln.jit(kiln.grad(kiln.jit(f))))(1.0), second, rtol=1e-5)


def test_an_unused_argument_gets_zero():
    assert float(kiln.grad(f, 1)(1.0, 2.0)) == 0.0


def test_python_control_flow_sees_values():
    @kiln.custom_jvp
    def g(x):
        return 2.0 * x if x > 0 else x

    @g.defjvp
    def _(primals, tangents):
        (x,), (t,) = primals, tangents
        return g(x), 5.0 * t if x > 0 else t

    assert float(g(2.0)) == 4.0
    assert float(kiln.grad(g)(1.0)) == 5.0
    assert float(kiln.grad(g)(-1.0)) == 1.0


def test_defjvps():
    @kiln.custom_jvp
    def g(x, y, z):
        return x * y * z

    g.defjvps(lambda t, out, x, y, z: t * out, None, lambda t, out, x, y, z: 3.0 * t)
    grads = kiln.grad(g, (0, 1, 2))(2.0, 3.0, 4.0)
    assert [float(x) for x in grads] == [24.0, 0.0, 3.0]
    with pytest.raises(TypeError, match="nondiff_argnums"):
        kiln.custom_jvp(g.fun, nondiff_argnums=(0,)).defjvps(None)


def test_nondiff_arguments_may_be_functions():
    def apply(fun, x, n):
        return fun(x)

    g = kiln.custom_jvp(apply, nondiff_argnums=(0, 2))
    g.defjvp(lambda fun, n, p, t: (fun(p[0]), float(n) * t[0]))
    assert float(kiln.grad(g, 1)(jnp.sin, 1.0, 3)) == 3.0
    assert float(kiln.jit(lambda x: kiln.grad(g, 1)(jnp.sin, x, 3))(1.0)) == 3.0


def test_nondiff_arguments_by_name():
    def apply(fun, x, n):
        return fun(x)

    g = kiln.custom_jvp(apply, nondiff_argnums=(0,), nondiff_argnames=("n",))
    g.defjvp(lambda fun, n, p, t: (fun(p[0]), float(n) * t[0]))
    assert float(kiln.grad(g, 1)(jnp.sin, 1.0, 3)) == 3.0
    assert float(g(fun=jnp.cos, n=2, x=0.0)) == 1.0
    with pytest.raises(ValueError, match="no positional parameter 'm'"):
        kiln.custom_jvp(apply, nondiff_argnames="m")


def test_pytrees_and_integers():
    @kiln.custom_jvp
    def g(d):
        return {"y": d["x"] * d["n"], "n": d["n"]}

    @g.defjvp
    def _(primals, tangents):
        (d,), (t,) = primals, tangents
        assert t["n"].dtype == kiln.dtypes.float0
        return g(d), {"y": 7.0 * t["x"], "n": np.zeros((), kiln.dtypes.float0)}

    for fun in (g, kiln.jit(g)):
        found = kiln.grad(lambda x, fun=fun: fun({"x": x, "n": 3})["y"])(2.0)
        assert float(found) == 7.0


def test_symbolic_zeros():
    seen = []

    @kiln.custom_jvp
    def g(x, y):
        return x * y

    def rule(primals, tangents):
        seen.extend(type(t).__name__ for t in tangents)
        return g(*primals), 2.0 * tangents[0]

    g.defjvp(rule, symbolic_zeros=True)
    assert float(kiln.grad(g)(1.0, 2.0)) == 2.0
    assert "Zero" in seen


def test_closing_over_a_mapped_value():
    def outer(y):
        g = kiln.custom_jvp(lambda x: x * y)
        g.defjvp(lambda p, t: (g(*p), t[0] * y))
        return g(2.0), kiln.grad(g)(2.0)

    for fun in (kiln.vmap(outer), kiln.jit(kiln.vmap(outer)), kiln.vmap(kiln.jit(outer))):
        value, slope = fun(X)
        np.testing.assert_allclose(value, 2 * X)
        np.testing.assert_allclose(slope, X)


@pytest.mark.parametrize("wrap", [lambda fun: fun, kiln.jit])
def test_differentiating_by_a_closed_over_value_is_an_error(wrap):
    def outer(x, y):
        g = kiln.custom_jvp(lambda x: x * y)
        g.defjvp(lambda p, t: (g(*p), t[0] * y))
        return g(x)

    with pytest.raises(UnexpectedTracerError):
        kiln.grad(wrap(outer), (0, 1))(2.0, 3.0)


def test_the_equation():
    text = str(kiln.make_jaxpr(f)(1.0, 2.0))
    assert "custom_jvp_call[" in text
    assert "jvp_jaxpr_fun=f_jvp" in text
    assert "num_consts=0" in text
    closed = str(kiln.make_jaxpr(lambda y: kiln.jit(_over(y))(1.0))(2.0))
    assert "num_consts=1" in closed


def _over(y):
    g = kiln.custom_jvp(lambda x: x * y)
    g.defjvp(lambda p, t: (g(*p), t[0]))
    return g


def test_without_a_rule():
    with pytest.raises(AttributeError, match="No JVP defined for custom_jvp function g using"):
        kiln.custom_jvp(_named("g"))(1.0)


def _named(name):
    def fun(x):
        return x * 2.0

    fun.__name__ = name
    return fun


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda p, t: p[0], "must produce a pair"),
        (lambda p, t: (p[0], (t[0],)), r"equal container \(pytree\) structures"),
        (lambda p, t: (p[0], jnp.ones(3)), r"Expected float32\[\] .* but got float32\[3\]"),
        (lambda p, t: (p[0], jnp.ones((), "int32")), r"but got int32\[\]"),
    ],
)
def test_wrong_rules(rule, message):
    g = kiln.custom_jvp(_named("g"))
    g.defjvp(rule)
    with pytest.raises(TypeError, match=message) as error:
        kiln.grad(g)(jnp.float32(1.0))
    assert "function g" in str(error.value)


@pytest.mark.parametrize("rule", [lambda p, t: ((p[0],), (t[0],)), lambda p, t: (jnp.ones(3),) * 2])
def test_a_recorded_function_and_its_rule_return_the_same(rule):
    g = kiln.custom_jvp(_named("g"))
    g.defjvp(rule)
    with pytest.raises(TypeError, match=r"function g|derivative of g"):
        kiln.grad(kiln.jit(g))(1.0)


def test_arguments_must_be_arrays():
    with pytest.raises(TypeError, match="not a valid"):
        f("text", 1.0)
