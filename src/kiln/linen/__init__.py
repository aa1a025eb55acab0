"""The public `kiln.linen`: modules with named, nested variables, and transformations of them."""

from __future__ import annotations

from kiln.linen import errors as errors
from kiln.linen import frozen_dict as frozen_dict
from kiln.linen import initializers as initializers
from kiln.linen import logical as spmd
from kiln.linen import metadata as meta
from kiln.linen.application import apply, init, init_with_output
from kiln.linen.axes import broadcast, scan, vmap
from kiln.linen.branching import cond, switch, while_loop
from kiln.linen.context import (
    disable_named_call,
    enable_named_call,
    intercept_methods,
    override_named_call,
)
from kiln.linen.derivatives import custom_vjp, grad, jvp, value_and_grad, vjp
from kiln.linen.filters import DenyList
from kiln.linen.frozen_dict import FrozenDict, freeze, unfreeze
from kiln.linen.initializers import ones, ones_init, zeros, zeros_init
from kiln.linen.jit import jit
from kiln.linen.layers import pooling as pooling
from kiln.linen.layers.activations import PReLU
from kiln.linen.layers.attention import (
    MultiHeadAttention,
    MultiHeadDotProductAttention,
    SelfAttention,
    combine_masks,
    dot_product_attention,
    dot_product_attention_weights,
    make_attention_mask,
    make_causal_mask,
)
from kiln.linen.layers.combinators import BatchApply, Sequential
from kiln.linen.layers.convolution import Conv, ConvLocal, ConvTranspose
from kiln.linen.layers.embedding import Embed
from kiln.linen.layers.linear import Dense, DenseGeneral, Einsum
from kiln.linen.layers.normalization import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from kiln.linen.layers.pooling import avg_pool, max_pool, min_pool, pool
from kiln.linen.layers.recurrent import RNN, Bidirectional
from kiln.linen.layers.recurrent_cells import (
    ConvLSTMCell,
    GRUCell,
    LSTMCell,
    MGUCell,
    OptimizedLSTMCell,
    RNNCellBase,
    SimpleCell,
)
from kiln.linen.layers.reparameterization import SpectralNorm, WeightNorm
from kiln.linen.layers.stochastic import Dropout
from kiln.linen.logical import (
    LogicallyPartitioned,
    RulesFallback,
    get_logical_axis_rules,
    logical_axis_rules,
    logical_to_mesh,
    logical_to_mesh_axes,
    logical_to_mesh_sharding,
    set_logical_axis_rules,
    with_logical_constraint,
    with_logical_partitioning,
)
from kiln.linen.metadata import (
    PARTITION_NAME,
    Partitioned,
    get_partition_spec,
    get_sharding,
    unbox,
    with_partitioning,
)
from kiln.linen.methods import compact, compact_name_scope, nowrap
from kiln.linen.module import Module, share_scope
from kiln.linen.scope import Variable
from kiln.linen.summary import tabulate
from kiln.linen.transforms import (
    add_metadata_axis,
    checkpoint,
    fold_rngs,
    map_variables,
    remat,
    remat_scan,
)
from kiln.linen.variables import merge_param
from kiln.nn import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    logsumexp,
    one_hot,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softmax,
    softplus,
    standardize,
    swish,
    tanh,
)
from kiln.nn import standardize as normalize
