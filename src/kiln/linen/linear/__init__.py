"""The layers that multiply by a kernel, by the name of Flax's submodule."""

from __future__ import annotations

from kiln.linen.dtypes import promote_dtype as promote_dtype
from kiln.linen.linear.convolution import Conv as Conv
from kiln.linen.linear.convolution import ConvLocal as ConvLocal
from kiln.linen.linear.convolution import ConvTranspose as ConvTranspose
from kiln.linen.linear.convolution import canonicalize_padding as canonicalize_padding
from kiln.linen.linear.dense import Dense as Dense
from kiln.linen.linear.dense import DenseGeneral as DenseGeneral
from kiln.linen.linear.dense import Einsum as Einsum
from kiln.linen.linear.dense import default_kernel_init as default_kernel_init
from kiln.linen.linear.embedding import Embed as Embed
