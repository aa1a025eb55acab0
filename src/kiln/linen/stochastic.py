"""Dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln import numpy as jnp
from kiln import random
from kiln.linen.linear.dense import canonical_axes
from kiln.linen.module import Module
from kiln.linen.module.methods import compact
from kiln.linen.module.refusal import refused
from kiln.linen.scopes.variables import merge_param


class Dropout(Module):
    """Set random elements of the input to 0, and scale the others to preserve the mean.

    The mask is constant along `broadcast_dims`. Nothing is dropped if `deterministic`; otherwise a
    key for the stream `dropout` is required.

    Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014.
    Example:
        >>> layer = linen.Dropout(0.5, deterministic=False)
        >>> y = layer.apply({}, jnp.ones(100), rngs={"dropout": random.key(0)})
        >>> jnp.unique(y)
        Array([0., 2.], dtype=float32)
        >>> linen.Dropout(0.5).apply({}, jnp.ones(3), deterministic=True)
        Array([1., 1., 1.], dtype=float32)
    """

    rate: float
    broadcast_dims: Sequence[int] = ()
    deterministic: bool | None = None
    rng_collection: str = "dropout"

    @compact
    def __call__(self, inputs: Any, deterministic: bool | None = None, rng: Any = None) -> Any:
        """Return the input with elements dropped; unchanged if deterministic."""
        deterministic = merge_param("deterministic", self.deterministic, deterministic)
        if not 0.0 <= self.rate <= 1.0:
            raise refused(
                self,
                f"rate={self.rate}",
                "the rate is the probability of being dropped, from 0 to 1",
                "use a rate in this range, as Dropout(0.1)",
            )
        if self.rate == 0.0 or deterministic:
            return inputs
        inputs = jnp.asarray(inputs)
        if self.rate == 1.0:
            # Without the division by 0 there is no nan in the gradient.
            return jnp.zeros_like(inputs)
        if rng is None:
            rng = self.make_rng(self.rng_collection)
        shape = list(inputs.shape)
        for axis in canonical_axes(self, self.broadcast_dims, inputs.ndim, "broadcast_dims"):
            shape[axis] = 1
        kept = random.bernoulli(rng, 1.0 - self.rate, tuple(shape))
        return jnp.where(kept, inputs / (1.0 - self.rate), 0)
