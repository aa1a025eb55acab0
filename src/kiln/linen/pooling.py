"""The pooling functions by the name of Flax's submodule."""

from __future__ import annotations

from kiln.linen.layers.pooling import avg_pool as avg_pool
from kiln.linen.layers.pooling import max_pool as max_pool
from kiln.linen.layers.pooling import min_pool as min_pool
from kiln.linen.layers.pooling import pool as pool
