"""Pages as data: the blocks of code with what they print, and the tables of idioms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

STEP = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
CODE = re.compile(r"^`([^`]*)`$")
CELL = re.compile(r"\s*((?:`[^`]*`|[^|`])*?)\s*\|")


class Step(NamedTuple):
    """A block of Python, and what it prints: nothing where no text follows."""

    code: str
    printed: str


class Row(NamedTuple):
    """A row of a table: the heading above the table, the names of the columns, the cells."""

    heading: str
    columns: list[str]
    cells: list[str]

    def code(self, column: str) -> str | None:
        """Return the code of a cell, or None if the cell is not one piece of code."""
        found = CODE.match(self.cells[self.columns.index(column)])
        return found[1] if found else None


def steps(text: str) -> list[Step]:
    """Return the blocks of a page, in order."""
    return [Step(code, printed) for code, printed in STEP.findall(text)]


def rows(text: str) -> Iterator[Row]:
    """Yield the rows of all tables of a page."""
    heading, columns = "", None
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("|"):
            columns = None
        elif columns is None:
            columns = CELL.findall(line[1:])
        elif not line.startswith("|--"):
            yield Row(heading, columns, CELL.findall(line[1:]))


def value(code: str, names: dict[str, Any]) -> Any:
    """Run statements; return the value of the last one, or of the variable that it changes."""
    tree = ast.parse(code)
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        shown: ast.expr = last.value
        before = tree.body[:-1]
    else:
        assert isinstance(last, (ast.Assign, ast.AugAssign)), code
        target = last.targets[0] if isinstance(last, ast.Assign) else last.target
        while isinstance(target, ast.Subscript):
            target = target.value
        assert isinstance(target, ast.Name), code
        shown = ast.copy_location(ast.Name(target.id, ast.Load()), last)
        before = tree.body
    exec(compile(ast.Module(before, []), code, "exec"), names)
    return eval(compile(ast.Expression(shown), code, "eval"), names)


def uses(code: str, name: str) -> bool:
    """Tell whether code reads a variable."""
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(ast.parse(code)))
