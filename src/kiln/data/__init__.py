"""Input pipelines: batches of NumPy arrays become arrays on the devices of all processes."""

from __future__ import annotations

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.data.batches import Batches as Batches

_suggest_names(globals())
