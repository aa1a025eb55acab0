"""Docstrings of kiln as reStructuredText: labeled parts, examples, code in backticks."""

from __future__ import annotations

import re
from collections.abc import Iterator

LABEL = re.compile(r"^(Args|Shapes|Units|Raises|Source|Returns|Note|Example|Examples):(?: |$)")
CODE = re.compile(r"(`+[^`]+`+)")
SPECIAL = re.compile(r"([*|\\]|_(?=\W|$)|(?<=\w)_(?=\s))")


def paragraphs(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts of a docstring: a label, or an empty one, and the lines below it."""
    label, lines = "", []
    for line in text.splitlines():
        found = LABEL.match(line)
        ends = not line.strip() or (label and not line.startswith(" "))
        if (
            (found or ends)
            and any(lines)
            and not (label.startswith("Example") and not line.strip())
        ):
            yield label, lines
            label, lines = "", []
        if found:
            label, line = found[1], line[found.end() :]
        if line.strip() or label.startswith("Example"):
            lines.append(line)
    if any(lines):
        yield label, lines


def arguments(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines of each argument, whose name is in backticks."""
    lines = [line for line in lines if line.strip()]
    indent = min(len(x) - len(x.lstrip()) for x in lines)
    found: list[str] = []
    for line in lines:
        if line[indent] != " " and found:
            yield found
            found = []
        if not found:
            names, _, rest = line.strip().partition(": ")
            line = ", ".join(f"`{name}`" for name in names.split(", ")) + f": {rest}"
        found.append(line.strip())
    yield found


def escaped(text: str) -> str:
    """Return a line of prose in which only backticks have a meaning."""
    parts = CODE.split(text)
    for number, part in enumerate(parts):
        if number % 2 == 0:
            parts[number] = SPECIAL.sub(r"\\\1", part)
            continue
        # Letters may neither precede nor follow a literal.
        before, after = parts[number - 1][-1:], parts[number + 1][:1]
        parts[number] = "\\ " * before.isalnum() + _code(part) + "\\ " * after.isalnum()
    return "".join(parts)


def _code(text: str) -> str:
    inner = text.strip("`")
    # A literal neither begins nor ends with a blank.
    return f"``{inner}``" if inner == inner.strip() else inner


def to_rst(text: str) -> list[str]:
    """Return the lines of a docstring as reStructuredText."""
    out: list[str] = []
    for label, lines in paragraphs(text):
        if label.startswith("Example"):
            indent = min(len(x) - len(x.lstrip()) for x in lines if x.strip())
            code = "\n".join(x[indent:] for x in lines).strip("\n").splitlines()
            out += [".. code-block:: pycon", "", *("   " + x for x in code), ""]
            continue
        if label == "Args":
            out += [*(f"- {escaped(' '.join(x))}" for x in arguments(lines)), ""]
            continue
        is_list = lines[0].lstrip().startswith(("- ", "* "))
        prose = "\n".join(lines) if is_list else " ".join(x.strip() for x in lines)
        if is_list:
            prose = re.sub(r"(?m)^(\s*)[-*] ", r"\1- ", prose)
            out += [*(x[:1] + escaped(x[1:]) for x in prose.splitlines()), ""]
        else:
            out += [f"**{label}:** {escaped(prose)}" if label else escaped(prose), ""]
    return out
