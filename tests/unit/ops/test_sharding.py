"""Constraints on where values live: rules, texts, errors."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding, SingleDeviceSharding
from kiln.ops.sharding import resolved, with_sharding_constraint

MESH = Mesh(np.array(kiln.devices()).reshape(4, 2), ("a", "b"))
P = PartitionSpec
ROWS = NamedSharding(MESH, P("a"))


def constrain(x, *entries):
    return with_sharding_constraint(x, NamedSharding(MESH, P(*entries)))


def test_trees_take_prefixes() -> None:
    tree = {"u": jnp.ones((8, 2)), "v": [jnp.ones(4), jnp.ones(8)]}
    out = with_sharding_constraint(tree, {"u": ROWS, "v": None})
    assert out["u"].sharding == ROWS and not out["v"][0].committed
    assert with_sharding_constraint(tree, ROWS)["v"][1].sharding == ROWS


def test_under_vmap_the_new_axis_is_free() -> None:
    jaxpr = kiln.make_jaxpr(kiln.vmap(lambda x: constrain(x, "a", "b"), in_axes=1, out_axes=1))(
        np.ones((8, 3, 2))
    )
    assert "P('a', UNCONSTRAINED, 'b')" in str(jaxpr)
    f = kiln.jit(kiln.vmap(lambda x: constrain(x * 2, "a", "b"), in_axes=1, out_axes=1))
    np.testing.assert_array_equal(f(np.ones((8, 3, 2))), 2 * np.ones((8, 3, 2)))
    assert "{?}" in f.lower(np.ones((8, 3, 2))).as_text()


def test_tangents_and_cotangents_are_cut_too() -> None:
    text = str(kiln.make_jaxpr(kiln.grad(lambda x: (constrain(x, "a") ** 2).sum()))(np.ones(8)))
    assert text.count("sharding_constraint") == 2


def test_on_one_device_it_says_nothing() -> None:
    one = SingleDeviceSharding(kiln.devices()[0])
    f = kiln.jit(lambda x: with_sharding_constraint(x, one) + 1)
    assert "sdy" not in f.lower(np.ones(3)).as_text()
    np.testing.assert_array_equal(f(np.ones(3)), [2, 2, 2])


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"not divisible by 4"):
        constrain(jnp.ones(6), "a")
    with pytest.raises(ValueError, match="rank"):
        kiln.make_jaxpr(lambda x: constrain(x, "a", "b"))(np.ones(8))
    with pytest.raises(TypeError, match="must hold shardings"):
        resolved("a", "with_sharding_constraint")
    with pytest.raises(RuntimeError, match="needs a mesh"):
        resolved(P("a"), "with_sharding_constraint")


def test_arrays_made_like_others_lie_with_them() -> None:
    sharded = kiln.device_put(np.ones((8, 2), np.float32), ROWS)
    third = kiln.device_put(np.ones((8, 2), np.float32), kiln.devices()[3])
    makers = [
        jnp.zeros_like,
        jnp.ones_like,
        jnp.empty_like,
        lambda x, **options: jnp.full_like(x, 3, **options),
        lambda x, **options: lax.full_like(x, 3, **options),
    ]
    for make in makers:
        for x in (sharded, third):
            for out in (make(x), make(x, dtype=np.int32), make(x, shape=(8, 2))):
                assert out.sharding == x.sharding and out.committed
        # Other shapes may not be divisible: they lie on one device alone.
        assert not make(sharded, shape=(3,)).committed
        assert make(third, shape=(3,)).devices() == {kiln.devices()[3]}
        assert not make(jnp.ones(3)).committed
    assert not jnp.full_like(sharded, np.arange(2)).committed
    assert jnp.zeros_like(sharded, device=kiln.devices()[1]).devices() == {kiln.devices()[1]}
    assert kiln.jit(lambda: jnp.zeros_like(sharded))().shape == (8, 2)
