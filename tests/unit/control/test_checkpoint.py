"""checkpoint: the backward pass recomputes what the forward pass did not keep."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import checkpoint_policies as policies
from kiln import lax
from kiln.control.effects.callback import io_callback
from kiln.ops.identity import checkpoint_name

X = np.array([1.0, 2.0, 3.0], np.float32)


def f(x, y):
    return jnp.sin(jnp.sin(jnp.sin(x))) * y


def equations(jaxpr):
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield eqn
        for value in eqn.params.values():
            if hasattr(value, "eqns"):
                yield from equations(value)


def count(fun, name, *args, part=None):
    """Count operations in the gradient; `part` 0 or 1 is the forward or the backward pass."""
    jaxpr = kiln.make_jaxpr(kiln.grad(fun))(*args)
    found = list(equations(jaxpr))
    if part is not None:
        outer = [eqn for eqn in found if eqn.primitive.name == "checkpoint"]
        found = list(equations(outer[part].params["jaxpr"]))
    return sum(eqn.primitive.name == name for eqn in found)


def test_sines_are_computed_again():
    assert count(f, "sin", 1.0, 2.0) == 3
    again = kiln.checkpoint(f)
    assert count(again, "sin", 1.0, 2.0, part=0) == 3
    assert count(again, "cos", 1.0, 2.0, part=0) == 0
    assert count(again, "sin", 1.0, 2.0, part=1) == 2
    assert count(again, "cos", 1.0, 2.0, part=1) == 3


def test_everything_may_be_kept():
    kept = kiln.checkpoint(f, policy=policies.everything_saveable)
    assert count(kept, "cos", 1.0, 2.0, part=0) == 3
    assert count(kept, "sin", 1.0, 2.0, part=1) == 0
    assert count(kept, "cos", 1.0, 2.0, part=1) == 0


@pytest.mark.parametrize("policy", [None, policies.everything_saveable])
@pytest.mark.parametrize("wrap", [lambda fun: fun, kiln.jit])
def test_values(wrap, policy):
    again = wrap(kiln.checkpoint(wrap(f), policy=policy))
    expected = kiln.grad(f, (0, 1))(1.0, 2.0)
    np.testing.assert_allclose(again(1.0, 2.0), f(1.0, 2.0), rtol=1e-6)
    np.testing.assert_allclose(kiln.grad(again, (0, 1))(1.0, 2.0), expected, rtol=1e-6)
    mapped = kiln.vmap(kiln.grad(again), (0, None))(X, 2.0)
    np.testing.assert_allclose(mapped, kiln.vmap(kiln.grad(f), (0, None))(X, 2.0), rtol=1e-5)
    summed = kiln.grad(lambda x: kiln.vmap(again, (0, None))(x, 2.0).sum())(X)
    np.testing.assert_allclose(summed, mapped, rtol=1e-5)
    tangent = kiln.jvp(lambda x: again(x, 2.0), (1.0,), (1.0,))[1]
    np.testing.assert_allclose(tangent, expected[0], rtol=1e-6)


def test_second_order():
    again = kiln.checkpoint(f)
    expected = kiln.grad(kiln.grad(f))(1.0, 2.0)
    for second in (
        kiln.grad(kiln.grad(again)),
        kiln.grad(kiln.checkpoint(kiln.grad(again))),
        kiln.jit(kiln.grad(kiln.jit(kiln.grad(again)))),
    ):
        np.testing.assert_allclose(second(1.0, 2.0), expected, rtol=1e-5)


def dots(x, w):
    return jnp.sum(jnp.sin(lax.dot(jnp.sin(lax.dot(x, w)), w)))


def batched_dots(x, w):
    product = lax.dot_general(w, x, (((2,), (1,)), ((0,), (0,))))
    return jnp.sum(jnp.sin(lax.dot_general(w, product, (((2,), (1,)), ((0,), (0,))))))


def test_products_may_be_kept():
    w = np.eye(3, dtype=np.float32) * 0.5
    name = "dot_general"
    assert count(kiln.checkpoint(dots), name, X, w, part=1) == 4
    for fun in (dots, kiln.jit(dots)):
        for policy in (policies.dots_saveable, policies.checkpoint_dots):
            assert count(kiln.checkpoint(fun, policy=policy), name, X, w, part=1) == 2
    policy = policies.dots_with_no_batch_dims_saveable
    assert policy is policies.checkpoint_dots_with_no_batch_dims
    assert count(kiln.checkpoint(dots, policy=policy), name, X, w, part=1) == 2
    stacks = np.ones((2, 3), np.float32), np.ones((2, 3, 3), np.float32)
    assert count(kiln.checkpoint(batched_dots, policy=policy), name, *stacks, part=1) == 4
    kept = kiln.checkpoint(batched_dots, policy=policies.dots_saveable)
    assert count(kept, name, *stacks, part=1) == 2


def named(x):
    return jnp.sin(checkpoint_name(jnp.sin(checkpoint_name(jnp.sin(x), "a")), "b"))


@pytest.mark.parametrize(
    ("policy", "sines"),
    [
        (policies.nothing_saveable, 2),
        (policies.save_only_these_names("a"), 1),
        (policies.save_only_these_names("b"), 1),
        (policies.save_only_these_names("a", "b"), 0),
        (policies.save_any_names_but_these("b"), 1),
        (policies.save_any_names_but_these(), 0),
        (policies.save_anything_except_these_names("a"), 0),
        (
            policies.save_from_both_policies(
                policies.save_only_these_names("a"), policies.save_only_these_names("b")
            ),
            0,
        ),
    ],
)
def test_named_values_may_be_kept(policy, sines):
    again = kiln.checkpoint(named, policy=policy)
    assert count(again, "sin", 1.0, part=1) == sines
    np.testing.assert_allclose(kiln.grad(again)(1.0), kiln.grad(named)(1.0), rtol=1e-6)


def test_closed_over_values_have_derivatives():
    def loss(w):
        return kiln.checkpoint(lambda x: jnp.sin(x * w))(2.0)

    np.testing.assert_allclose(kiln.grad(loss)(3.0), 2 * np.cos(6.0), rtol=1e-5)


def test_static_arguments_keywords_and_pytrees():
    def g(d, negate, *, scale):
        return -d["x"] * scale if negate else d["x"] * scale

    again = kiln.checkpoint(g, static_argnums=(1,))
    assert float(kiln.grad(again)({"x": 2.0}, True, scale=3.0)["x"]) == -3.0
    with pytest.raises(kiln.errors.TracerBoolConversionError):
        kiln.checkpoint(g)({"x": 2.0}, True, scale=3.0)


def test_in_a_loop():
    def loss(x, wrap):
        body = wrap(lambda carry, _: (jnp.sin(carry), None))
        return lax.scan(body, x, None, length=4)[0]

    expected = kiln.grad(loss)(1.0, lambda fun: fun)
    for wrap in (kiln.checkpoint, lambda fun: kiln.checkpoint(fun, prevent_cse=False)):
        found = kiln.jit(lambda x, wrap=wrap: kiln.grad(loss)(x, wrap))(1.0)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_effects_happen_once(capsys):
    def g(x):
        kiln.debug.print("here {}", x)
        return jnp.sin(jnp.sin(x))

    kiln.jit(kiln.grad(kiln.checkpoint(g)))(1.0)
    kiln.effects_barrier()
    assert capsys.readouterr().out == "here 1.0\n"


def test_a_barrier_prevents_merging():
    def text(prevent_cse):
        again = kiln.checkpoint(f, prevent_cse=prevent_cse)
        return kiln.jit(kiln.grad(again)).lower(1.0, 2.0).as_text()

    assert "optimization_barrier" in text(True)
    assert "optimization_barrier" not in text(False)


def test_the_equation():
    text = str(kiln.make_jaxpr(kiln.checkpoint(f))(1.0, 2.0))
    for part in ("checkpoint[", "policy=None", "prevent_cse=True", "differentiated=False"):
        assert part in text
    assert kiln.remat is kiln.checkpoint
    with pytest.raises(TypeError, match="callable"):
        kiln.checkpoint(3)


@pytest.mark.parametrize("policy", [None, policies.nothing_saveable])
def test_what_a_call_with_effects_returned_is_kept(policy):
    """A second call would return something else."""
    calls = []

    def host(n):
        calls.append(n)
        return np.float32(n + len(calls))

    def g(x, n):
        return jnp.sin(x * io_callback(host, kiln.ShapeDtypeStruct((), "float32"), n))

    found = kiln.grad(kiln.checkpoint(g, policy=policy))(0.5, 1.0)
    assert len(calls) == 1
    np.testing.assert_allclose(found, 2 * np.cos(1.0), rtol=1e-6)
