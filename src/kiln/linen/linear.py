"""The layers that multiply by a kernel, by the name of Flax's submodule."""

from __future__ import annotations

from kiln.linen.dtypes import promote_dtype as promote_dtype
from kiln.linen.layers.convolution import Conv as Conv
from kiln.linen.layers.convolution import ConvLocal as ConvLocal
from kiln.linen.layers.convolution import ConvTranspose as ConvTranspose
from kiln.linen.layers.convolution import canonicalize_padding as canonicalize_padding
from kiln.linen.layers.embedding import Embed as Embed
from kiln.linen.layers.linear import Dense as Dense
from kiln.linen.layers.linear import DenseGeneral as DenseGeneral
from kiln.linen.layers.linear import Einsum as Einsum
from kiln.linen.layers.linear import default_kernel_init as default_kernel_init
