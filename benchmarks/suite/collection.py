"""All rows of the suite, and their selection by name and kind."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.suite import (
    calls,
    elementwise,
    layouts,
    linalg,
    loops,
    networks,
    programs,
    random_numbers,
    reductions,
    signals,
    sorting,
)
from benchmarks.suite.row import KINDS, Row

SUBJECTS = (
    elementwise,
    reductions,
    layouts,
    loops,
    random_numbers,
    sorting,
    linalg,
    signals,
    programs,
    networks,
    calls,
)
ROWS: list[Row] = sorted(
    (row for subject in SUBJECTS for row in subject.ROWS), key=lambda row: KINDS.index(row.kind)
)
if len({row.name for row in ROWS}) != len(ROWS):
    raise ValueError("two rows of the suite have the same name")


def chosen(
    texts: Sequence[str], kinds: Sequence[str] = (), rows: Sequence[Row] = ROWS
) -> list[Row]:
    """Return the rows whose names contain one of the texts, or that are of one of the kinds.

    Without texts and kinds these are all rows. Raises: ValueError where a text or kind fits none.
    """
    if not texts and not kinds:
        return list(rows)
    for text in texts:
        if not any(text in row.name for row in rows):
            raise ValueError(f"no row's name contains {text!r}; --list prints all names")
    known = dict.fromkeys(row.kind for row in rows)
    for kind in kinds:
        if kind not in known:
            raise ValueError(f"no rows are of kind {kind!r}, but of: {', '.join(known)}")
    return [row for row in rows if row.kind in kinds or any(text in row.name for text in texts)]
