"""Tables that people read: drawn on a terminal, plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from kiln.base.lazy import rich_console, rich_table, rich_text

Row = Sequence[str]


def show(title: str, columns: Row, rows: Sequence[Row]) -> None:
    """Print a table to standard output; `columns` may be empty, for a table without a header."""
    if sys.stdout.isatty():
        rich_console.Console(file=sys.stdout).print(_drawn(title, columns, rows))
    else:
        print("\n".join(plain(title, columns, rows)))


def plain(title: str, columns: Row, rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table as lines: the columns are aligned, and the last is never padded."""
    yield title
    every = [columns, *rows] if columns else list(rows)
    widths = [max(map(len, cells)) for cells in zip(*every, strict=True)]
    for row in every:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield f"  {'  '.join(padded)}".rstrip()


def _drawn(title: str, columns: Row, rows: Sequence[Row]) -> object:
    table = rich_table.Table(title=title, title_justify="left", show_header=bool(columns))
    for name in columns or rows[0]:
        # Without a header the names of columns are not shown.
        table.add_column(name if columns else "", overflow="fold")
    for row in rows:
        # As Text, since brackets in plain strings are markup: f32[3].
        table.add_row(*map(rich_text.Text, row))
    return table
