"""Checkpoints: trees of arrays in folders, written atomically."""

from __future__ import annotations

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.checkpoints.checkpoint import Checkpoint as Checkpoint
from kiln.checkpoints.checkpoint import restore as restore
from kiln.checkpoints.saving import Saving as Saving
from kiln.checkpoints.saving import save as save
from kiln.checkpoints.steps import Checkpoints as Checkpoints

_suggest_names(globals())
