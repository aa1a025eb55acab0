"""`BatchApply` by the name of Flax's submodule."""

from __future__ import annotations

from kiln.linen.combinators import BatchApply as BatchApply
