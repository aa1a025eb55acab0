"""The constraint that an array has a layout."""

from __future__ import annotations

from typing import Any

from kiln.base.source import api_boundary
from kiln.ir.shardings.formats import Layout, require_rows


@api_boundary
def with_layout_constraint(x: Any, layout: Layout) -> Any:
    """Return a tree of arrays, whose layout is the requested one.

    Raises: ValueError for a layout other than the order of the axes.
    """
    require_rows(layout, "with_layout_constraint")
    return x
