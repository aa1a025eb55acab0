"""What fwd and bwd rules return is checked, with messages that name the function."""

from __future__ import annotations

import pytest

import kiln
import kiln.numpy as jnp


def derivative(fwd, bwd, wrap=lambda fun: fun):
    def product(x, y):
        return x * y

    g = kiln.custom_vjp(product)
    g.defvjp(fwd, bwd)
    return kiln.grad(wrap(g))(jnp.float32(1.0), jnp.float32(2.0))


def fwd(x, y):
    return x * y, None


STRUCTURE = "must produce an output with the same container .* tuple of length 2"


@pytest.mark.parametrize(
    ("bwd", "error", "message"),
    [
        (lambda _, ct: ct, TypeError, "same container"),
        (lambda _, ct: (ct,), TypeError, r"got bwd output structure PyTreeDef\(\(\*,\)\)"),
        (lambda _, ct: (ct, (ct,)), TypeError, "same container"),
        (lambda _, ct: (jnp.ones(3), None), ValueError, "so the shapes do not match"),
        (lambda _, ct: (None, jnp.ones(3)), None, ""),
        (lambda _, ct: (jnp.ones((), "int32"), None), ValueError, "so the dtypes do not match"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda fun: fun, kiln.jit])
def test_wrong_backward_rules(bwd, error, message, wrap):
    if error is None:
        error, message = ValueError, r"output\[1\]"
    with pytest.raises(error, match=message) as caught:
        derivative(fwd, bwd, wrap)
    assert "product" in str(caught.value)


def test_lists_and_weak_cotangents_are_accepted():
    assert float(derivative(fwd, lambda _, ct: [3.0, 4])) == 3.0


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda x, y: x * y, "must produce a pair"),
        (lambda x, y: (x, "text"), "not a valid"),
    ],
)
def test_wrong_forward_rules(rule, message):
    with pytest.raises(TypeError, match=message):
        derivative(rule, lambda _, ct: (ct, ct))


@pytest.mark.parametrize("rule", [lambda x, y: ((x,), None), lambda x, y: (jnp.ones(3), None)])
def test_a_recorded_function_and_its_forward_rule_return_the_same(rule):
    with pytest.raises(TypeError, match="product"):
        derivative(rule, lambda _, ct: (ct, ct), kiln.jit)


def test_a_cotangent_stands_for_what_holds_one_array() -> None:
    """The rule may return the array where the argument is a structure around one."""

    @kiln.custom_vjp
    def scaled(x):
        return 3.0 * x["value"][0]

    scaled.defvjp(lambda x: (scaled(x), None), lambda _, ct: (5.0 * ct,))
    for wrap in (lambda fun: fun, kiln.jit):
        found = kiln.grad(wrap(scaled))({"value": [2.0]})
        assert float(found["value"][0]) == 5.0
    scaled.defvjp(lambda x: (scaled(x), None), lambda _, ct: ({"value": ct},))
    assert float(kiln.grad(scaled)({"value": [2.0]})["value"][0]) == 1.0
