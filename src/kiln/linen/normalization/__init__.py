"""The normalizing layers by the name of Flax's submodule."""

from __future__ import annotations

from kiln.linen.normalization.normalization import BatchNorm as BatchNorm
from kiln.linen.normalization.normalization import GroupNorm as GroupNorm
from kiln.linen.normalization.normalization import InstanceNorm as InstanceNorm
from kiln.linen.normalization.normalization import LayerNorm as LayerNorm
from kiln.linen.normalization.normalization import RMSNorm as RMSNorm
from kiln.linen.normalization.reparameterization import SpectralNorm as SpectralNorm
from kiln.linen.normalization.reparameterization import WeightNorm as WeightNorm
