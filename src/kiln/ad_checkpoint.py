"""Recomputation in the backward pass: `checkpoint`, its policies, what is kept."""

from kiln.api.derivatives.saved_residuals import print_saved_residuals
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.control import checkpoint_policies
from kiln.control.checkpoint import checkpoint, remat
from kiln.ops.identity import checkpoint_name

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "print_saved_residuals", "remat"]

_suggest_names(globals())
