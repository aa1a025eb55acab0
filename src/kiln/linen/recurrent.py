"""The recurrent layers by the name of Flax's submodule."""

from __future__ import annotations

from kiln.linen.layers.recurrent import RNN as RNN
from kiln.linen.layers.recurrent import Bidirectional as Bidirectional
from kiln.linen.layers.recurrent import flip_sequences as flip_sequences
from kiln.linen.layers.recurrent_cells import ConvLSTMCell as ConvLSTMCell
from kiln.linen.layers.recurrent_cells import GRUCell as GRUCell
from kiln.linen.layers.recurrent_cells import LSTMCell as LSTMCell
from kiln.linen.layers.recurrent_cells import MGUCell as MGUCell
from kiln.linen.layers.recurrent_cells import OptimizedLSTMCell as OptimizedLSTMCell
from kiln.linen.layers.recurrent_cells import RNNCellBase as RNNCellBase
from kiln.linen.layers.recurrent_cells import SimpleCell as SimpleCell
