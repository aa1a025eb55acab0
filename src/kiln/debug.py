"""Looking into running programs: print values, or call a Python function with them."""

from kiln.control.callback import debug_callback as callback
from kiln.control.callback import debug_print as print

__all__ = ["callback", "print"]
