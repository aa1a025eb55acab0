"""References among the arguments and residuals of custom rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.tree import tree_flatten, tree_unflatten
from kiln.control.regions.held_refs import held


def test_held_references_are_no_leaves() -> None:
    ref = kiln.new_ref(1.0)
    leaves, tree = tree_flatten(held((ref, {"x": 2})))
    assert leaves == [2]
    assert tree_unflatten(tree, [3]) == (ref, {"x": 3})
    plain = (1, {"x": 2})
    assert held(plain) is plain


@kiln.custom_vjp
def stash(kept: Any, x: Any) -> Any:
    return x * kept[1]


def _forward(kept: Any, x: Any) -> Any:
    return x * kept[1], (kept, x)


def _backward(residuals: Any, ct: Any) -> Any:
    kept, x = residuals
    kept[0] = ct * x
    return None, ct * kept[1]


stash.defvjp(_forward, _backward)


def loss(x: Any, kept: Any) -> Any:
    return stash(kept, x) ** 2


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
def test_a_backward_rule_writes(through: Any) -> None:
    kept = kiln.new_ref(jnp.array([0.0, 3.0]))
    assert float(through(kiln.grad(loss))(2.0, kept)) == 36
    assert kept[...].tolist() == [24, 3]
    assert float(through(loss)(2.0, kept)) == 36


def test_mapping_a_jitted_function_inside_the_derivative_is_refused() -> None:
    kept = kiln.new_ref(jnp.array([0.0, 3.0]))
    assert float(kiln.grad(kiln.jit(loss))(2.0, kept)) == 36
    assert kept[...].tolist() == [24, 3]
    mapped = kiln.vmap(kiln.jit(loss), (0, None))
    with pytest.raises(NotImplementedError, match="inside the derivative"):
        kiln.grad(lambda xs: mapped(xs, kept).sum())(jnp.ones(2))


def _two(first: Any, second: Any) -> Any:
    return first[...] + second[...]


two_rules = kiln.custom_vjp(_two)
two_rules.defvjp(lambda first, second: (_two(first, second), None), lambda _, ct: (None, None))

TWICE: dict[str, Any] = {
    "cond": lambda ref: kiln.lax.cond(True, _two, _two, ref, ref),
    "custom_vjp": lambda ref: two_rules(ref, ref),
    "custom_vjp in jit": lambda ref: kiln.jit(lambda ref: two_rules(ref, ref))(ref),
    "vmap": lambda ref: kiln.vmap(_two)(ref, ref),
    "scan": lambda ref: kiln.lax.scan(
        lambda carry, xs: (carry, _two(*xs)), None, {"first": ref, "second": ref}
    ),
}


@pytest.mark.parametrize("name", TWICE)
def test_one_reference_as_two_arguments_is_refused(name: str) -> None:
    names = "xs['first'] and xs['second']" if name == "scan" else "first and second"
    with pytest.raises(ValueError, match="only one reference") as raised:
        TWICE[name](kiln.new_ref(jnp.zeros(3)))
    assert f"at both {names}" in str(raised.value)


def test_a_branch_may_not_close_over_its_operand() -> None:
    ref = kiln.new_ref(0.0)

    def branch(other: Any) -> Any:
        return ref[...] + other[...]

    with pytest.raises(ValueError, match="closed over and passed as the argument other"):
        kiln.lax.cond(True, branch, branch, ref)


def test_a_custom_function_may_not_return_a_reference() -> None:
    same = kiln.custom_vjp(lambda ref: ref)
    same.defvjp(lambda ref: (ref, None), lambda _, ct: (None,))
    for fun in (same, kiln.jit(same)):
        with pytest.raises(ValueError, match="returned a mutable array reference"):
            fun(kiln.new_ref(0.0))


def test_checkpointed_functions_take_references() -> None:
    ref = kiln.new_ref(3.0)

    @kiln.checkpoint
    def f(x: Any, kept: dict[str, Any]) -> Any:
        out = jnp.sin(x) * kept["ref"][...]
        kept["ref"][...] = kiln.lax.stop_gradient(kept["ref"][...] + 1)
        return out

    assert float(kiln.grad(f)(0.0, {"ref": ref})) == 3
    assert float(kiln.jit(kiln.grad(f))(0.0, {"ref": ref})) == 4
    assert float(ref[...]) == 5


def test_rules_in_jitted_functions_write_to_the_references_they_are_given() -> None:
    @kiln.jit
    def inner(kept: Any, x: Any) -> Any:
        return jnp.sin(stash(kept, 2 * x))

    @kiln.jit
    def outer(kept: Any, x: Any) -> Any:
        return inner(kept, x) + 1

    for through in (lambda f: f, kiln.jit):
        kept = kiln.new_ref(jnp.array([0.0, 3.0]))
        slope = through(kiln.grad(lambda x: outer(kept, x)))(0.5)  # noqa: B023
        np.testing.assert_allclose(slope, 6 * np.cos(3.0), rtol=1e-6)
        np.testing.assert_allclose(kept[0], np.cos(3.0), rtol=1e-6)


@pytest.mark.parametrize("inner", [lambda f: f, kiln.checkpoint, kiln.jit])
@pytest.mark.parametrize("outer", [lambda f: f, kiln.checkpoint, kiln.jit])
@pytest.mark.parametrize("reverse", [False, True])
def test_rules_in_loops_write_to_references_from_outside(
    inner: Any, outer: Any, reverse: bool
) -> None:
    def f(kept: Any, x: Any) -> Any:
        @inner
        def body(x: Any, row: Any) -> Any:
            return stash(kept, x) * row, x

        x, ys = kiln.lax.scan(body, x, jnp.arange(2.0, 5.0), reverse=reverse)
        return x + 0 * ys.sum()

    kept = kiln.new_ref(jnp.array([0.0, 3.0]))
    slope = kiln.grad(outer(f), 1)(kept, 1.0)
    assert float(slope) == 27 * 24
    # The rule of the first step runs last.
    assert float(kept[0]) == 9 * 24


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
def test_vjp_passes_references_on(through: Any) -> None:
    def f(x: Any, kept: dict[str, Any]) -> Any:
        kept["count"][...] += 1
        return jnp.sin(x) * kept["by"][...]

    kept = {"count": kiln.new_ref(0), "by": kiln.new_ref(2.0)}
    value, pull = kiln.vjp(through(f), 0.5, kept)
    ct, none = pull(1.0)
    np.testing.assert_allclose([value, ct], [2 * np.sin(0.5), 2 * np.cos(0.5)], rtol=1e-6)
    assert none == {"count": None, "by": None}
    assert int(kept["count"][...]) == 1
    for refused in (kiln.grad(f, 1), kiln.jacrev(f, 1)):
        with pytest.raises(TypeError, match="not a valid JAX type"):
            refused(0.5, kept)
    with pytest.raises(ValueError, match="at both first and second"):
        kiln.vjp(two_rules, kept["by"], kept["by"])
