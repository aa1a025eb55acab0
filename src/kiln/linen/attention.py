"""The attention layers and masks by the name of Flax's submodule."""

from __future__ import annotations

from kiln.linen.layers.attention import MultiHeadAttention as MultiHeadAttention
from kiln.linen.layers.attention import MultiHeadDotProductAttention as MultiHeadDotProductAttention
from kiln.linen.layers.attention import SelfAttention as SelfAttention
from kiln.linen.layers.attention import combine_masks as combine_masks
from kiln.linen.layers.attention import dot_product_attention as dot_product_attention
from kiln.linen.layers.attention import (
    dot_product_attention_weights as dot_product_attention_weights,
)
from kiln.linen.layers.attention import make_attention_mask as make_attention_mask
from kiln.linen.layers.attention import make_causal_mask as make_causal_mask
