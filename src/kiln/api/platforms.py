"""The platforms that the program being recorded is for."""

from __future__ import annotations

from typing import Any

from kiln.api.arrays import default_backend
from kiln.api.contexts.scopes import make_user_context

EXPORTED_FOR: Any = make_user_context(())
"""The platforms that a function is exported for; if empty, the program is for this process."""


def platforms_of_program() -> tuple[str, ...]:
    """Return the platforms that the program being recorded may run on."""
    return EXPORTED_FOR.value or (default_backend(),)
