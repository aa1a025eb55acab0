"""Recomputation in the backward pass: `checkpoint`, its policies, and names for values."""

from kiln.control import checkpoint_policies
from kiln.control.checkpoint import checkpoint, remat
from kiln.ops.identity import checkpoint_name

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "remat"]
