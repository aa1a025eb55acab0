"""Docstrings of functions that are made by other functions."""

from __future__ import annotations


def shown(summary: str, example: tuple[str, ...]) -> str:
    """Return a docstring: a summary, and the lines of an example below it, if there are any."""
    if not example:
        return summary
    return "\n    ".join([f"{summary}\n\nExample:", *example])
