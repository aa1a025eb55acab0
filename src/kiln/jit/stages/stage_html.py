"""Lowered and compiled programs in notebooks: their types, costs and texts.

Everything is inline and escaped; colors are those of the page, so that it is readable on any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kiln.base.lazy import html
from kiln.ir.printing.display import attribute, preformatted
from kiln.ir.printing.jaxpr_html import to_html

_LONGEST = 100_000
"""Characters of a text that a notebook stores; the rest is cut off, and said to be."""
_UNITS = ("", "k", "M", "G", "T")


def lowered_html(
    name: str, arguments: Sequence[str], results: Sequence[str], program: Any, stage: str
) -> str:
    """Return a program before it is compiled: its signature, and the jaxpr, folded."""
    shown = folded(f"jaxpr: {_equations(program)}", to_html(program))
    return _page(f"{stage} {name}", _signature(arguments, results), [shown])


def compiled_html(
    name: str,
    arguments: Sequence[str],
    results: Sequence[str],
    facts: Iterable[tuple[str, str]],
    text: tuple[str, str],
    picture: str | None,
) -> str:
    """Return a compiled program: its signature and facts; its text and its picture, folded.

    `text` is the name of a stage, and its text. `picture` is an HTML document.
    """
    stage, lines = text
    left_out = len(lines) - _LONGEST
    cut = f"\n… {left_out} more characters: as_text({stage!r})" if left_out > 0 else ""
    parts = [folded(stage, preformatted(lines[:_LONGEST] + cut))]
    if picture is not None and len(picture) <= _LONGEST:
        # A document of its own: its styles do not apply to the notebook's page.
        frame = 'style="width:100%;height:28em;border:1px solid #8886;background:#fff"'
        source = attribute(picture)
        parts.append(folded("picture", f'<iframe sandbox="" {frame} srcdoc="{source}"></iframe>'))
    return _page(f"Compiled {name}", [*_signature(arguments, results), *facts], parts)


def folded(title: str, body: str) -> str:
    """Return HTML behind a title that unfolds it."""
    return (
        f'<details><summary style="cursor:pointer">{html.escape(title)}</summary>{body}</details>'
    )


def quantity(number: float, unit: str = "") -> str:
    """Return a number in three digits, with a prefix: 12500 as 12.5 k."""
    step = 0
    while abs(number) >= 1000 and step < len(_UNITS) - 1:
        number, step = number / 1000, step + 1
    return f"{number:.3g} {_UNITS[step]}{unit}".strip()


def _equations(program: Any) -> str:
    count = len(program.eqns)
    return f"{count} equation{'s' * (count != 1)}"


def _signature(arguments: Sequence[str], results: Sequence[str]) -> list[tuple[str, str]]:
    return [
        ("arguments", ", ".join(arguments) or "none"),
        ("results", ", ".join(results) or "none"),
    ]


def _page(title: str, facts: Iterable[tuple[str, str]], parts: Sequence[str]) -> str:
    cell = '<td style="text-align:left;padding:0 0.8em 0 0">'
    rows = "".join(
        f"<tr>{cell}{html.escape(name)}</td>{cell}<code>{html.escape(said)}</code></td></tr>"
        for name, said in facts
    )
    return (
        f"<div><div><code>{html.escape(title)}</code></div>"
        f'<table style="border-collapse:collapse">{rows}</table>{"".join(parts)}</div>'
    )
