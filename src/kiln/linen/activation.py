"""Activations: the one with a parameter, and those of `kiln.nn`."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.linen.module import Module
from kiln.linen.module.methods import compact
from kiln.nn import celu as celu
from kiln.nn import elu as elu
from kiln.nn import gelu as gelu
from kiln.nn import glu as glu
from kiln.nn import hard_sigmoid as hard_sigmoid
from kiln.nn import hard_silu as hard_silu
from kiln.nn import hard_swish as hard_swish
from kiln.nn import hard_tanh as hard_tanh
from kiln.nn import leaky_relu as leaky_relu
from kiln.nn import log_sigmoid as log_sigmoid
from kiln.nn import log_softmax as log_softmax
from kiln.nn import logsumexp as logsumexp
from kiln.nn import one_hot as one_hot
from kiln.nn import relu as relu
from kiln.nn import relu6 as relu6
from kiln.nn import selu as selu
from kiln.nn import sigmoid as sigmoid
from kiln.nn import silu as silu
from kiln.nn import soft_sign as soft_sign
from kiln.nn import softmax as softmax
from kiln.nn import softplus as softplus
from kiln.nn import standardize as standardize
from kiln.nn import swish as swish
from kiln.nn import tanh as tanh


class PReLU(Module):
    """Scale negative elements by one learned slope.

    Source: He, Zhang, Ren, Sun 2015.
    Example:
        >>> layer = linen.PReLU()
        >>> layer.apply(layer.init(random.key(0), jnp.ones(2)), jnp.array([-1.0, 2.0]))
        Array([-0.01,  2.  ], dtype=float32)
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
