"""Inspecting running programs, and where their arrays live.

Print values, call a Python function with them, draw progress, and which device holds which shard.
"""

from typing import TYPE_CHECKING

from kiln.api.debugging.sharding_inspection import inspect_array_sharding
from kiln.base.lazy import on_first_use as _on_first_use
from kiln.control.effects.callback import debug_callback as callback
from kiln.control.effects.printing import debug_log as log
from kiln.control.effects.printing import debug_print as print
from kiln.ir.shardings.pictures import (
    sharding_svg,
    sharding_text,
    visualize_array_sharding,
    visualize_sharding,
)

if TYPE_CHECKING:
    from kiln.api.debugging.breakpoints import breakpoint
    from kiln.api.debugging.progress import tick, track

__all__ = [
    "breakpoint",
    "callback",
    "inspect_array_sharding",
    "log",
    "print",
    "sharding_svg",
    "sharding_text",
    "tick",
    "track",
    "visualize_array_sharding",
    "visualize_sharding",
]

__getattr__, __dir__ = _on_first_use(
    globals(),
    "kiln.api.debugging.breakpoints: breakpoint",
    "kiln.api.debugging.progress: tick track",
)
