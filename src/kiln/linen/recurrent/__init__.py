"""The recurrent layers by the name of Flax's submodule."""

from __future__ import annotations

from kiln.linen.recurrent.cells import ConvLSTMCell as ConvLSTMCell
from kiln.linen.recurrent.cells import GRUCell as GRUCell
from kiln.linen.recurrent.cells import LSTMCell as LSTMCell
from kiln.linen.recurrent.cells import MGUCell as MGUCell
from kiln.linen.recurrent.cells import OptimizedLSTMCell as OptimizedLSTMCell
from kiln.linen.recurrent.cells import RNNCellBase as RNNCellBase
from kiln.linen.recurrent.cells import SimpleCell as SimpleCell
from kiln.linen.recurrent.sequences import RNN as RNN
from kiln.linen.recurrent.sequences import Bidirectional as Bidirectional
from kiln.linen.recurrent.sequences import flip_sequences as flip_sequences
