"""The normalizing layers by the name of Flax's submodule."""

from __future__ import annotations

from kiln.linen.layers.normalization import BatchNorm as BatchNorm
from kiln.linen.layers.normalization import GroupNorm as GroupNorm
from kiln.linen.layers.normalization import InstanceNorm as InstanceNorm
from kiln.linen.layers.normalization import LayerNorm as LayerNorm
from kiln.linen.layers.normalization import RMSNorm as RMSNorm
from kiln.linen.layers.reparameterization import SpectralNorm as SpectralNorm
from kiln.linen.layers.reparameterization import WeightNorm as WeightNorm
