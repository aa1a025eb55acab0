"""The function that `vjp` returns adds to references."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp


def test_cotangents_are_added_to_references() -> None:
    total = kiln.new_ref(jnp.ones(2))
    _, pullback = kiln.vjp(lambda x, y: (x * y["a"]).sum(), jnp.arange(2.0), {"a": jnp.ones(2)})
    first, second = pullback.with_refs(total, {"a": object()})(1.0)
    assert first is None
    np.testing.assert_array_equal(second["a"], [0, 1])
    pullback.with_refs(total, {"a": None})(2.0)
    np.testing.assert_array_equal(total[...], [4, 4])


def test_a_loop_accumulates_into_a_reference() -> None:
    @kiln.jit
    def summed(w: kiln.Array, xs: kiln.Array) -> kiln.Array:
        total = kiln.new_ref(jnp.zeros_like(w))

        def step(_: None, x: kiln.Array) -> tuple[None, kiln.Array]:
            value, pullback = kiln.vjp(lambda w: (w * x).sum(), w)
            pullback.with_refs(total)(jnp.ones_like(value))
            return None, value

        kiln.lax.scan(step, None, xs)
        return kiln.ref.freeze(total)

    np.testing.assert_array_equal(summed(jnp.ones(3), jnp.arange(6.0).reshape(2, 3)), [3, 5, 7])


def test_the_function_is_still_a_pytree_and_a_partial() -> None:
    _, pullback = kiln.vjp(lambda x: x * x, 3.0)
    leaves, tree = kiln.tree.flatten(pullback)
    again = kiln.tree.unflatten(tree, leaves)
    assert type(again) is type(pullback)
    assert isinstance(again, kiln.tree_util.Partial)
    assert kiln.jit(lambda pull, ct: pull(ct))(again, 1.0) == (6.0,)


def test_references_of_another_structure_are_refused() -> None:
    _, pullback = kiln.vjp(lambda x: x * x, 3.0)
    with pytest.raises(ValueError, match="the references have the structure"):
        pullback.with_refs(None, None)(1.0)
