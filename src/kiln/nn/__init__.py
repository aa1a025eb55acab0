"""The public `kiln.nn`: activations, softmax, attention, initializers, as pure functions."""

from __future__ import annotations

from kiln.base.lazy import on_first_use as _on_first_use
from kiln.nn import initializers as initializers
from kiln.nn.activations import celu as celu
from kiln.nn.activations import elu as elu
from kiln.nn.activations import gelu as gelu
from kiln.nn.activations import glu as glu
from kiln.nn.activations import hard_sigmoid as hard_sigmoid
from kiln.nn.activations import hard_silu as hard_silu
from kiln.nn.activations import hard_swish as hard_swish
from kiln.nn.activations import hard_tanh as hard_tanh
from kiln.nn.activations import identity as identity
from kiln.nn.activations import leaky_relu as leaky_relu
from kiln.nn.activations import log1mexp as log1mexp
from kiln.nn.activations import log_sigmoid as log_sigmoid
from kiln.nn.activations import mish as mish
from kiln.nn.activations import relu as relu
from kiln.nn.activations import relu6 as relu6
from kiln.nn.activations import selu as selu
from kiln.nn.activations import sigmoid as sigmoid
from kiln.nn.activations import silu as silu
from kiln.nn.activations import soft_sign as soft_sign
from kiln.nn.activations import softplus as softplus
from kiln.nn.activations import sparse_plus as sparse_plus
from kiln.nn.activations import sparse_sigmoid as sparse_sigmoid
from kiln.nn.activations import squareplus as squareplus
from kiln.nn.activations import swish as swish
from kiln.nn.activations import tanh as tanh
from kiln.nn.attention import dot_product_attention as dot_product_attention
from kiln.nn.normalization import log_softmax as log_softmax
from kiln.nn.normalization import logmeanexp as logmeanexp
from kiln.nn.normalization import logsumexp as logsumexp
from kiln.nn.normalization import one_hot as one_hot
from kiln.nn.normalization import softmax as softmax
from kiln.nn.normalization import standardize as standardize

__getattr__, __dir__ = _on_first_use(globals(), "initializers")
