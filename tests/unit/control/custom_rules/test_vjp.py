"""custom_vjp: forward and backward rules, under every transformation and their mixtures."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.errors import UnexpectedTracerError
from kiln.custom_derivatives import (
    SymbolicZero,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)

X = np.array([1.0, 2.0, 3.0], np.float32)


@kiln.custom_vjp
def f(x, y=2.0):
    return jnp.sin(x) * y


def f_fwd(x, y):
    return f(x, y), (x, y)


def f_bwd(saved, ct):
    x, y = saved
    return 10.0 * jnp.cos(x) * y * ct, None


f.defvjp(f_fwd, f_bwd)


def expected(x):
    return 20.0 * np.cos(x)


def test_values_and_keywords():
    assert f.__name__ == "f"
    np.testing.assert_allclose(f(1.0), 2 * np.sin(1.0), rtol=1e-6)
    np.testing.assert_allclose(f(y=3.0, x=1.0), 3 * np.sin(1.0), rtol=1e-6)


@pytest.mark.parametrize(
    "derivative",
    [
        kiln.grad(f),
        kiln.jit(kiln.grad(f)),
        kiln.grad(kiln.jit(f)),
        kiln.jit(kiln.grad(kiln.jit(f))),
        lambda x: kiln.vjp(f, x)[1](1.0)[0],
    ],
)
def test_the_rules_are_used(derivative):
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


def test_none_is_zero():
    assert float(kiln.grad(f, 1)(1.0, 2.0)) == 0.0


def test_second_order():
    second = -20.0 * np.sin(1.0)
    np.testing.assert_allclose(kiln.grad(kiln.grad(f))(1.0), second, rtol=1e-5)
    np.testing.assert_allclose(kiln.grad(kiln.jit(kiln.grad(kiln.jit(f))))(1.0), second, rtol=1e-5)
    mapped = kiln.vmap(kiln.grad(kiln.jit(kiln.grad(f))))(X)
    np.testing.assert_allclose(mapped, -20.0 * np.sin(X), rtol=1e-4)


@pytest.mark.parametrize("wrap", [lambda fun: fun, kiln.jit])
def test_cotangents_of_unmapped_arguments_are_summed(wrap):
    @kiln.custom_vjp
    def times(x, y):
        return x * y

    times.defvjp(
        lambda x, y: (x * y, (x, y)), lambda saved, ct: (7.0 * ct * saved[1], ct * saved[0])
    )
    grads = kiln.grad(wrap(lambda x, y: kiln.vmap(times, (0, None))(x, y).sum()), (0, 1))(X, 2.0)
    np.testing.assert_allclose(grads[0], [14.0, 14.0, 14.0])
    np.testing.assert_allclose(grads[1], 6.0)


def test_python_control_flow_sees_values():
    @kiln.custom_vjp
    def g(x):
        return x

    g.defvjp(lambda x: (x, 5.0 if x > 0 else 1.0), lambda factor, ct: (factor * ct,))
    assert float(kiln.grad(g)(2.0)) == 5.0
    assert float(kiln.grad(g)(-2.0)) == 1.0


def test_nondiff_arguments():
    def apply(fun, x, n):
        return fun(x)

    g = kiln.custom_vjp(apply, nondiff_argnums=(0, 2))
    g.defvjp(lambda fun, x, n: (fun(x), None), lambda fun, n, _, ct: (float(n) * ct,))
    assert float(kiln.grad(g, 1)(jnp.sin, 1.0, 3)) == 3.0
    with pytest.raises(UnexpectedTracerError, match="nondiff_argnums"):
        kiln.jit(lambda n: g(jnp.sin, 1.0, n))(3)


def test_pytrees_and_integers():
    @kiln.custom_vjp
    def g(d, n):
        return {"y": d["x"] * n, "n": n}

    def bwd(n, ct):
        assert ct["n"].dtype == kiln.dtypes.float0
        return {"x": 7.0 * ct["y"], "z": None}, None

    g.defvjp(lambda d, n: (g(d, n), n), bwd)
    for fun in (g, kiln.jit(g)):
        grads = kiln.grad(lambda d, fun=fun: fun(d, 3)["y"])({"x": 2.0, "z": jnp.ones(2)})
        assert float(grads["x"]) == 7.0
        np.testing.assert_array_equal(grads["z"], [0.0, 0.0])


@pytest.mark.parametrize(
    "forward",
    [
        lambda: kiln.jvp(f, (1.0,), (1.0,)),
        lambda: kiln.jvp(kiln.jit(f), (1.0,), (1.0,)),
        lambda: kiln.jit(lambda x: kiln.jvp(f, (x,), (1.0,)))(1.0),
        lambda: kiln.jacfwd(f)(1.0),
    ],
)
def test_forward_mode_is_an_error(forward):
    with pytest.raises(TypeError, match=r"can't apply forward-mode autodiff \(jvp\)"):
        forward()


@pytest.mark.parametrize("pushed", [lambda x: kiln.jvp(f, (x,), (1.0,))[1], kiln.jacfwd(f)])
@pytest.mark.parametrize("wrap", [lambda g: g, kiln.jit])
def test_forward_mode_is_an_error_where_only_its_derivative_is_asked(pushed, wrap):
    """What the residuals move is not part of the rules: without an error it would be nothing."""
    with pytest.raises(TypeError, match=r"can't apply forward-mode autodiff \(jvp\)"):
        wrap(kiln.grad(pushed))(1.0)


def test_through_a_loop():
    def loss(x):
        def step(carry, _):
            return f(carry, 1.0), None

        return lax.scan(step, x, None, length=3)[0]

    def reference(x):
        slope = 1.0
        for _ in range(3):
            slope, x = slope * 10.0 * np.cos(x), np.sin(x)
        return slope

    np.testing.assert_allclose(kiln.grad(loss)(1.0), reference(1.0), rtol=1e-5)
    found = kiln.jit(kiln.vmap(kiln.grad(loss)))(X)
    np.testing.assert_allclose(found, [reference(x) for x in X], rtol=1e-4)


def test_a_linear_map_may_be_mapped_and_then_transposed():
    _, pushed = kiln.linearize(lambda x: f(x, 1.0), 1.0)
    (found,) = kiln.linear_transpose(kiln.vmap(pushed), X)(X)
    np.testing.assert_allclose(found, 10 * np.cos(1.0) * X, rtol=1e-5)


def test_closing_over_a_mapped_value():
    def outer(y):
        g = kiln.custom_vjp(lambda x: x * y)
        g.defvjp(lambda x: (x * y, None), lambda _, ct: (ct * y,))
        return kiln.grad(g)(2.0)

    for fun in (kiln.vmap(outer), kiln.jit(kiln.vmap(outer)), kiln.vmap(kiln.jit(outer))):
        np.testing.assert_allclose(fun(X), X)


def test_differentiating_by_a_closed_over_value_is_an_error():
    def outer(x, y):
        g = kiln.custom_vjp(lambda x: x * y)
        g.defvjp(lambda x: (x * y, None), lambda _, ct: (ct * 2.0,))
        return g(x)

    with pytest.raises(UnexpectedTracerError, match="closed-over value"):
        kiln.grad(kiln.jit(outer), (0, 1))(2.0, 3.0)


def test_the_equation():
    text = str(kiln.make_jaxpr(f)(1.0, 2.0))
    assert "custom_vjp_call[" in text
    assert "bwd=f_bwd" in text


def test_without_rules():
    g = kiln.custom_vjp(lambda x: x)
    with pytest.raises(AttributeError, match="No VJP defined for custom_vjp function"):
        g(1.0)


SEEN = []


@kiln.custom_vjp
def pair(x, y):
    return x * y["a"], x + y["a"]


def pair_fwd(x, y):
    SEEN.append((x.perturbed, y["a"].perturbed))
    values = custom_vjp_primal_tree_values((x, y))
    return pair(*values), values


def pair_bwd(residuals, cts):
    x, y = residuals
    SEEN.append(tuple(isinstance(ct, SymbolicZero) for ct in cts))
    SEEN.append(tuple((tuple(ct.shape), str(ct.dtype)) for ct in cts))
    first, second = (0.0 if isinstance(ct, SymbolicZero) else ct for ct in cts)
    # Twice what is right, so that the rule is seen to be used.
    return 2 * (first * y["a"] + second), {"a": 2 * (first * x + second)}


pair.defvjp(pair_fwd, pair_bwd, symbolic_zeros=True)


def over_a_stack(x):
    return kiln.vmap(lambda x: pair(x, {"a": 3.0})[0])(x).sum()


@pytest.mark.parametrize(
    ("fun", "x", "slope", "perturbed", "zeros"),
    [
        (lambda x: pair(x, {"a": 3.0})[0], 2.0, 6.0, (True, False), (False, True)),
        (lambda x: pair(x, {"a": 3.0})[1], 2.0, 2.0, (True, False), (True, False)),
        (lambda x: pair(3.0, {"a": x})[0], 2.0, 6.0, (False, True), (False, True)),
        (lambda x: sum(pair(x, {"a": x})), 2.0, 12.0, (True, True), (False, False)),
        (lambda x: pair(x, {"a": 3})[0], 2.0, 6.0, (True, False), (False, True)),
        (
            lambda x: kiln.jit(lambda x: pair(x, {"a": 3.0})[1])(x),
            2.0,
            2.0,
            (True, False),
            (True, False),
        ),
        (kiln.checkpoint(lambda x: pair(x, {"a": 3.0})[0]), 2.0, 6.0, (True, False), (False, True)),
        (over_a_stack, X, 6.0 * np.ones(3), (True, False), (False, True)),
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, kiln.jit], ids=["eager", "jit"])
def test_symbolic_zeros(wrap, fun, x, slope, perturbed, zeros):
    SEEN.clear()
    np.testing.assert_allclose(wrap(kiln.grad(fun))(x), slope)
    assert [perturbed, zeros, (((), "float32"),) * 2] == SEEN


def test_symbolic_zeros_in_a_mapped_gradient():
    SEEN.clear()
    slope = kiln.vmap(kiln.grad(lambda x: pair(x, {"a": 3.0})[1]))(X)
    np.testing.assert_allclose(slope, 2.0)
    assert SEEN[:2] == [(True, False), (True, False)]


def test_symbolic_zeros_of_mapped_tangents():
    _, push = kiln.linearize(lambda x: pair(x, {"a": 3.0}), 2.0)
    pull = kiln.linear_transpose(lambda ts: kiln.vmap(push)(ts)[0], X)
    SEEN.clear()
    np.testing.assert_allclose(pull(X)[0], 6.0 * X)
    assert SEEN == [(False, True), (((), "float32"),) * 2]


def test_symbolic_zeros_in_a_loop():
    def loop(x):
        return lax.scan(lambda c, _: (pair(c, {"a": 3.0})[0], c), x, None, length=2)[0]

    SEEN.clear()
    assert float(kiln.grad(loop)(1.0)) == 36.0
    assert SEEN[0] == (True, False)
    assert (False, True) in SEEN


def test_a_rule_may_return_symbolic_zeros():
    g = kiln.custom_vjp(lambda x, y: x * y)
    g.defvjp(
        lambda x, y: (x.value * y.value, (x.value, y.value)),
        lambda res, ct: (SymbolicZero.from_primal_value(res[0]), ct),
        symbolic_zeros=True,
    )
    assert [float(ct) for ct in kiln.grad(g, (0, 1))(2.0, 3.0)] == [0.0, 1.0]


def test_symbolic_zeros_beside_arguments_that_are_no_arrays():
    @functools.partial(kiln.custom_vjp, nondiff_argnums=(1,))
    def scaled(x, by):
        return x * len(by)

    scaled.defvjp(
        lambda x, by: (x.value * len(by), None),
        lambda by, _, ct: (10.0 * len(by) * ct,),
        symbolic_zeros=True,
    )
    assert float(kiln.grad(scaled)(1.0, "abc")) == 30.0


def test_zeros_of_primals():
    assert isinstance(zero_from_primal(X, symbolic_zeros=True), SymbolicZero)
    np.testing.assert_array_equal(zero_from_primal(X), np.zeros(3))
    assert zero_from_primal(np.arange(3)).dtype == kiln.dtypes.float0
    assert SymbolicZero.from_primal_value(X).ndim == 1


def test_nondiff_arguments_by_name():
    def apply(fun, x, n):
        return fun(x)

    g = kiln.custom_vjp(apply, nondiff_argnames=["fun", "n"])
    g.defvjp(lambda fun, x, n: (fun(x), None), lambda fun, n, _, ct: (n * ct,))
    value, slope = kiln.value_and_grad(lambda x: g(jnp.cos, x, 5.0))(0.0)
    assert (float(value), float(slope)) == (1.0, 5.0)


def test_a_rule_runs_for_cotangents_that_are_zero() -> None:
    """As scales of 8-bit floats need it: they are what the rule says, whatever comes back."""

    @kiln.custom_vjp
    def scaled(h):
        return 2 * h, h.sum()

    scaled.defvjp(lambda h: (scaled(h), h), lambda h, cts: (h + 7 + cts[0],))

    @kiln.custom_vjp
    def product(a, b):
        return a * b

    product.defvjp(lambda a, b: (a * b, None), lambda _, ct: (None, None))

    def used(h):
        return product(*scaled(h)).sum() + h[0]

    def unused(h):
        scaled(h)
        return h[0]

    def stopped(h):
        return kiln.lax.stop_gradient(product(*scaled(h))).sum() + h[0]

    def looped(h):
        step = lambda total, x: (total + product(*scaled(h * x)).sum(), None)
        return kiln.lax.scan(step, 0.0, jnp.arange(2.0))[0] + h[0]

    h = jnp.arange(3.0)
    for wrap in (
        lambda f: kiln.grad(f)(h),
        lambda f: kiln.jit(kiln.grad(f))(h),
        lambda f: kiln.grad(kiln.jit(f))(h),
        lambda f: kiln.grad(kiln.checkpoint(f))(h),
        lambda f: kiln.vmap(kiln.grad(f))(h[None])[0],
        lambda f: kiln.vjp(f, h)[1](1.0)[0],
    ):
        assert wrap(used).tolist() == [8, 8, 9]
        assert wrap(looped).tolist() == [8, 8, 9]
        assert wrap(unused).tolist() == [1, 0, 0]
        assert wrap(stopped).tolist() == [1, 0, 0]
