"""The activation functions by the name of Flax's submodule."""

from __future__ import annotations

from kiln.linen.layers.activations import PReLU as PReLU
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
