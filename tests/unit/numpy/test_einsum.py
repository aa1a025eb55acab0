"""Einstein sums: one dot_general per pair, in a cheap order, differentiable and batchable."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.numpy.einsum import _plan


def test_a_product_of_matrices_is_one_equation() -> None:
    x, y = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    jaxpr = kiln.make_jaxpr(lambda x, y: jnp.einsum("ij,jk->ik", x, y))(x, y)
    assert [e.primitive.name for e in jaxpr.eqns] == ["dot_general"]


def test_operands_are_swapped_rather_than_the_result_transposed() -> None:
    x, y = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    jaxpr = kiln.make_jaxpr(lambda x, y: jnp.einsum("ij,jk->ki", x, y))(x, y)
    assert [e.primitive.name for e in jaxpr.eqns] == ["dot_general"]


def test_the_order_is_cheap() -> None:
    # (100x2)(2x100)(100x1): the last two first.
    steps = _plan("ij,jk,kl->il", ((100, 2), (2, 100), (100, 1)), "auto")
    assert set(steps[0].inputs) == {"jk", "kl"}


def test_gradient() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 4, 5))
    x, y = jnp.asarray(x, "float32"), jnp.asarray(y, "float32")
    found = kiln.grad(lambda x: jnp.einsum("bij,bjk->", x, y))(x)
    np.testing.assert_allclose(found, np.einsum("bjk,i->bij", y, np.ones(3)), rtol=1e-5)


def test_batching() -> None:
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(5, 2, 3)), "float32")
    y = jnp.asarray(rng.normal(size=(3, 4)), "float32")
    found = kiln.vmap(lambda x: jnp.einsum("ij,jk->ki", x, y))(x)
    np.testing.assert_allclose(found, np.einsum("bij,jk->bki", x, y), rtol=1e-4)


def test_path_is_numpys() -> None:
    x, y = np.ones((2, 3)), np.ones((3, 4))
    path, _ = jnp.einsum_path("ij,jk->ik", x, y)
    assert [tuple(p) for p in path] == [(0, 1)]


@pytest.mark.parametrize("text", ["ij,jk->iz", "ij,jk,kl", "i!j,jk"])
def test_wrong_texts(text: str) -> None:
    with pytest.raises(ValueError, match="einsum"):
        jnp.einsum(text, jnp.ones((2, 3)), jnp.ones((3, 4)))


def test_digits_name_axes() -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.arange(3.0).reshape(1, 3)
    np.testing.assert_array_equal(jnp.einsum("ab,1b->a1", x, y), np.einsum("ab,cb->ac", x, y))
