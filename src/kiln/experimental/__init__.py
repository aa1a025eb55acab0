"""Features that may still change: calls of Python functions with side effects."""

from kiln.control.callback import io_callback

__all__ = ["io_callback"]
