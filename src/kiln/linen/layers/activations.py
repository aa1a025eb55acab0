"""The activation with a parameter; those without are functions of `kiln.nn`."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.linen.module import Module
from kiln.linen.module.methods import compact


class PReLU(Module):
    """Scale negative elements by one learned slope.

    Source: He, Zhang, Ren, Sun 2015.
    """

    param_dtype: Any = np.float32
    negative_slope_init: float = 0.01

    @compact
    def __call__(self, inputs: Any) -> Any:
        """Return x where x >= 0, else slope * x, in the dtype of x."""
        inputs = jnp.asarray(inputs)
        slope = self.param(
            "negative_slope", lambda key: jnp.asarray(self.negative_slope_init, self.param_dtype)
        )
        return jnp.where(inputs >= 0, inputs, jnp.asarray(slope, inputs.dtype) * inputs)
