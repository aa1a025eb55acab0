"""Modules as tables: recorded calls, variables and their sizes, the cost of a call."""

from __future__ import annotations

from kiln.linen.summary.tables import Row as Row
from kiln.linen.summary.tables import rows_of as rows_of
from kiln.linen.summary.tables import size_of as size_of
from kiln.linen.summary.tables import tabulate as tabulate
from kiln.linen.summary.tables import value_lines as value_lines
