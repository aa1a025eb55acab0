"""The protocols of notebooks: HTML, and texts within the texts of containers."""

from __future__ import annotations

from typing import Any

from kiln.base.lazy import html


def preformatted(text: str) -> str:
    """Return text as HTML that keeps its lines."""
    return f'<pre style="margin:0">{html.escape(text)}</pre>'


def attribute(text: str) -> str:
    """Return text as the value of an attribute, in which parsers keep the ends of lines."""
    escaped: str = html.escape(text, quote=True)
    return escaped.replace("\n", "&#10;")


def pretty(text: str, printer: Any) -> None:
    """Write the lines of a text to IPython's pretty printer, at its indentation."""
    for number, line in enumerate(text.split("\n")):
        if number:
            printer.break_()
        printer.text(line)
