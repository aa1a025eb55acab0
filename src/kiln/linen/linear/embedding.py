"""Embeddings: a table of vectors, looked up by integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.linen.dtypes import promote_dtype
from kiln.linen.module import Module
from kiln.linen.module.refusal import refused
from kiln.nn import initializers

default_embed_init = initializers.variance_scaling(1.0, "fan_in", "normal", out_axis=0)


class Embed(Module):
    """Look up a vector for each integer; integers out of range give nan.

    Shapes: (...) -> (..., features).
    Example:
        >>> layer = linen.Embed(num_embeddings=10, features=4)
        >>> y, _ = layer.init_with_output(random.key(0), jnp.array([1, 5, 9]))
        >>> y.shape
        (3, 4)
    """

    num_embeddings: int
    features: int
    dtype: Any = None
    param_dtype: Any = np.float32
    embedding_init: Any = default_embed_init
    promote_dtype: Any = promote_dtype

    def setup(self) -> None:
        """Create the table."""
        self.embedding = self.param(
            "embedding",
            self.embedding_init,
            (self.num_embeddings, self.features),
            self.param_dtype,
        )

    def __call__(self, inputs: Any) -> Any:
        """Look up the vectors for integers.

        Shapes: (...) -> (..., features).
        Raises: ValueError for inputs that are not integers.
        """
        inputs = jnp.asarray(inputs)
        if not dtypes.issubdtype(inputs.dtype, np.integer):
            raise refused(
                self,
                f"inputs of {inputs.dtype}",
                "Input type must be an integer or unsigned integer.",
                "convert them: inputs.astype('int32')",
            )
        (table,) = self.promote_dtype(self.embedding, dtype=self.dtype, inexact=False)
        if self.num_embeddings == 1:
            # One row is broadcast rather than gathered: its gradient is then a sum.
            return jnp.where(inputs[..., None] == 0, table, jnp.nan)
        return jnp.take(table, inputs, axis=0)

    def attend(self, query: Any) -> Any:
        """Return the product of vectors with every row of the table.

        Shapes: (..., features) -> (..., num_embeddings).
        """
        query, table = self.promote_dtype(query, self.embedding, dtype=self.dtype)
        return jnp.dot(query, table.T)
