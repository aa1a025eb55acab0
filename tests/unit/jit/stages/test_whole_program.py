"""Traced functions as programs that need nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.core.meaning import meaning
from kiln.export import symbolic_shape
from kiln.ir.sizes.size import symbol

W = np.arange(3, dtype=np.float32)


def run(whole, leaves):
    return meaning(whole.program.jaxpr, [np.asarray(leaves[i]) for i in whole.kept])


def test_constants_are_inside():
    weight = jnp.asarray(W)
    whole = kiln.jit(lambda x: x * weight + weight.sum()).trace(W).whole_program()
    assert len(whole.program.jaxpr.invars) == 1 and not whole.program.jaxpr.constvars
    np.testing.assert_allclose(run(whole, [W])[0], W * W + 3)


def test_a_constant_that_is_returned():
    weight = jnp.asarray(W)
    whole = kiln.jit(lambda x: [weight, x]).trace(W + 1).whole_program()
    first, second = run(whole, [W + 1])
    np.testing.assert_array_equal(first, W)
    np.testing.assert_array_equal(second, W + 1)


def test_leaves_are_in_the_order_of_the_call():
    def f(x, y, *, z):
        return x - 2 * y + 4 * z

    traced = kiln.jit(f).trace(z=np.float32(3), y=np.float32(2), x=np.float32(1))
    # As `(args, kwargs)` the call has its keywords in alphabetical order.
    assert [str(a) for a in kiln.tree.leaves(traced.in_avals)] == ["float32[]"] * 3
    whole = traced.whole_program()
    leaves = kiln.tree.leaves(((), {"z": 3.0, "y": 2.0, "x": 1.0}))
    assert float(run(whole, np.float32(leaves))[0]) == 9.0


def test_arguments_that_are_not_used():
    traced = kiln.jit(lambda x, y, z: x + z).trace(1.0, 2.0, 3.0)
    assert traced.whole_program().kept == (0, 2)
    kept = kiln.jit(lambda x, y: x, keep_unused=True).trace(1.0, 2.0)
    assert kept.whole_program().kept == (0, 1)


def test_named_sizes_keep_all_arguments():
    struct = kiln.ShapeDtypeStruct(symbolic_shape("b"), np.float32)
    whole = kiln.jit(lambda x, y: x.sum()).trace(struct, W).whole_program()
    assert whole.kept == (0, 1) and whole.program.sizes == ("b",)
    assert whole.program.jaxpr.in_avals[0].shape == (symbol("b"),)


def test_donated_arguments_by_leaf():
    traced = kiln.jit(lambda x, y: (x + 1, y), donate_argnames="y").trace(W, W)
    assert traced.whole_program().program.donated == (1,)


def test_references_are_refused():
    ref = kiln.new_ref(jnp.zeros(3))

    def f(x):
        ref[...] = x
        return x

    with pytest.raises(NotImplementedError, match="export of f"):
        kiln.jit(f).trace(W).whole_program()
