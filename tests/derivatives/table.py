"""The table of derivatives: all rows, and the parts in which they are checked."""

from __future__ import annotations

import zlib

from tests.derivatives import (
    distribution_rows,
    lax_rows,
    nn_rows,
    numpy_rows,
    scipy_rows,
    sparse_rows,
)
from tests.derivatives.row import Row, rows

FILES = (numpy_rows, lax_rows, scipy_rows, distribution_rows, nn_rows, sparse_rows)
ROWS = [row for file in FILES for module, text in file.TEXTS for row in rows(module, text)]
PARTS = 12
"""One part is checked by `make test`, all in `make test-full`."""


def part(number: int) -> list[Row]:
    """Return the rows of a part; which part a row is in depends on its name only."""
    return [row for row in ROWS if zlib.crc32(row.id.encode()) % PARTS == number]
