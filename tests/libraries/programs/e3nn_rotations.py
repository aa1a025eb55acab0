"""e3nn: representations of rotations, and products of them."""

from __future__ import annotations

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp
import numpy as np

_random = np.random.RandomState(3)
POSITIONS = _random.randn(10, 3).astype(np.float32)


def harmonics():
    """Spherical harmonics, and their products."""
    x = e3nn.spherical_harmonics("0e + 1o + 2e", POSITIONS, normalize=True)
    y = e3nn.tensor_product(x, x, filter_ir_out=("0e", "1o", "2e"))
    return {"harmonics": x.array, "products": y.array}


def product():
    """A product that is squared, its gradient, and lengths."""
    x = e3nn.IrrepsArray("1o", POSITIONS)

    def loss(r):
        z = e3nn.spherical_harmonics("1o + 2e", r, normalize=False)
        return jnp.sum(e3nn.tensor_product(z, z).array ** 2)

    value, gradient = jax.jit(jax.value_and_grad(loss))(POSITIONS)
    return {"value": value, "gradient": gradient, "norms": e3nn.norm(x).array}


PROGRAMS = {"harmonics": harmonics, "product": product}
