"""References among the arguments and residuals of custom rules."""

from __future__ import annotations

from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.tree import tree_flatten, tree_unflatten
from kiln.control.held_refs import held


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


def test_a_jitted_function_inside_the_derivative_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="inside the derivative"):
        kiln.grad(kiln.jit(loss))(2.0, kiln.new_ref(jnp.array([0.0, 3.0])))
