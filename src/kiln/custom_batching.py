"""Functions with a rule of their own for stacks of arguments."""

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.control.custom_rules.vmap import custom_vmap
from kiln.control.sequential_vmap import sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]

_suggest_names(globals())
