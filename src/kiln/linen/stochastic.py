"""`Dropout` by the name of Flax's submodule."""

from __future__ import annotations

from kiln.linen.layers.stochastic import Dropout as Dropout
