"""Functions with a rule of their own for stacks of arguments."""

from kiln.control.custom_rules.vmap import custom_vmap
from kiln.control.sequential_vmap import sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
