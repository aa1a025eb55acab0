"""Layouts and formats of arrays, by the names in `jax.experimental.layout`."""

from __future__ import annotations

from kiln.api.sharding.layouts import with_layout_constraint
from kiln.ir.shardings.formats import Format, Layout

__all__ = ["Format", "Layout", "with_layout_constraint"]
