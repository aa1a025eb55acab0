"""Functions with a rule of their own for stacks of arguments."""

from kiln.control.custom_rules.vmap import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
