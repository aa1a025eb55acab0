"""Errors of modules: three lines that name the class and path."""

from __future__ import annotations

from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source


def refused(
    module: Any, asked: str, wrong: str, remedy: str, error: type[Exception] = ValueError
) -> Exception:
    """Build the error for a module that cannot do what was requested.

    `asked`, `wrong` and `remedy` are the lines of the message; `error` is the class.
    """
    return error(three_lines(f"{place(module)}: {asked} at {current_source()}", wrong, remedy))


def place(module: Any) -> str:
    """Return a module's class and path, as `Dense at /encoder/Dense_0`."""
    scope = getattr(module, "scope", None)
    kind = type(module).__name__
    if scope is None:
        return f"{kind} (not bound)"
    return f"{kind} at /{'/'.join(map(str, scope.path))}"
