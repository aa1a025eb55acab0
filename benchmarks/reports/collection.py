"""All rows of reports."""

from __future__ import annotations

from benchmarks.reports import arrays, eager, first_calls, kernels, scans
from benchmarks.suite.row import Row

ROWS: list[Row] = [
    *scans.ROWS,
    *arrays.ROWS,
    *kernels.ROWS,
    *eager.ROWS,
    *first_calls.ROWS,
]
