"""Notebooks as pages: their cells as MyST, with the outputs that are stored in them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FORMULA = re.compile(r"\$([^$\n]+)\$")
CODE = re.compile(r"(`[^`]*`)")


def fenced(info: str, text: str) -> str:
    """Return a block that its text cannot end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}\n{text.rstrip()}\n{fence}\n"


def prose(text: str) -> str:
    """Return a cell of text, with its formulas as roles."""
    parts = CODE.split(text)
    parts[::2] = [FORMULA.sub(r"{math}`\1`", part) for part in parts[::2]]
    return "".join(parts) + "\n"


def joined(text: str | list[str]) -> str:
    """Return a text that may be stored in lines."""
    return text if isinstance(text, str) else "".join(text)


def outputs(cell: dict[str, Any], picture: str, folder: Path) -> Iterator[str]:
    """Yield the blocks of a cell's outputs, and write its pictures into a folder.

    `picture` begins the names of the pictures' files.
    """
    for number, output in enumerate(cell["outputs"]):
        data = output.get("data", {})
        if output["output_type"] == "stream":
            yield fenced("text", joined(output["text"]))
        elif "image/png" in data:
            name = f"{picture}_{number}.png"
            (folder / name).write_bytes(base64.b64decode(joined(data["image/png"])))
            yield f"![{_described(cell)}]({name})\n"
        elif "text/html" in data:
            shown = joined(data["text/html"])
            # Wide ones scroll by themselves, not with the page.
            yield fenced("{raw} html", f'<div style="overflow-x:auto">{shown}</div>')
        elif "text/plain" in data:
            yield fenced("text", joined(data["text/plain"]))


def _described(cell: dict[str, Any]) -> str:
    """Return what a picture shows: the titles that its program gives it."""
    found = re.findall(r"title(?:=|\()f?\"([^\"{}$]+)\"", joined(cell["source"]))
    return "; ".join(found).replace("[", "(").replace("]", ")") or "a figure"


def page(path: Path, folder: Path) -> str:
    """Return a notebook as the text of a page, and write its pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    blocks: list[str] = []
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for number, cell in enumerate(cells):
        text = joined(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(prose(text))
        else:
            blocks.append(fenced("python", text))
            blocks += outputs(cell, f"{path.stem}_{number}", folder)
    return "\n".join(blocks)
