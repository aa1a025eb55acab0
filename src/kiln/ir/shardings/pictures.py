"""Pictures, as text or SVG, of which device holds which part of an array."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.lazy import html
from kiln.base.source import current_source

CELL = 96, 48
COLORS = ("#8dd3c7", "#ffffb3", "#bebada", "#fb8072", "#80b1d3", "#fdb462", "#b3de69", "#fccde5")


def visualize_sharding(shape: Sequence[int], sharding: Any, *, min_width: int = 9) -> None:
    """Print which device holds which part of an array of one or two dimensions.

    Raises: ValueError for another rank, or a shape that cannot be sharded this way.
    """
    sys.stdout.write(sharding_text(shape, sharding, min_width=min_width) + "\n")


def visualize_array_sharding(x: Any, *, min_width: int = 9) -> None:
    """Print which device holds which part of an array of one or two dimensions.

    Raises: ValueError for another rank, or for a tracer, which has no sharding yet.
    """
    visualize_sharding(x.shape, x.sharding, min_width=min_width)


def sharding_text(shape: Sequence[int], sharding: Any, *, min_width: int = 9) -> str:
    """Return a picture of a sharding as lines of text, one cell for each part.

    A cell is at least `min_width` characters wide.
    Raises: ValueError unless the shape has one or two axes, and the sharding divides it.
    """
    rows = _cells(shape, sharding)
    width = max(min_width, *(len(label) + 2 for row in rows for label in row))
    edges = ["─" * width] * len(rows[0])
    lines = ["┌" + "┬".join(edges) + "┐"]
    for i, row in enumerate(rows):
        if i:
            lines.append("├" + "┼".join(edges) + "┤")
        lines.append("│" + "│".join(label.center(width) for label in row) + "│")
    return "\n".join([*lines, "└" + "┴".join(edges) + "┘"])


def sharding_svg(shape: Sequence[int], sharding: Any) -> str:
    """Return a picture of a sharding as SVG; parts held by the same devices share a color.

    Raises: ValueError unless the shape has one or two axes, and the sharding divides it.
    """
    rows = _cells(shape, sharding)
    width, height = CELL
    labels = list(dict.fromkeys(label for row in rows for label in row))
    size = f'width="{width * len(rows[0])}" height="{height * len(rows)}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace">']
    for i, row in enumerate(rows):
        for j, label in enumerate(row):
            color = COLORS[labels.index(label) % len(COLORS)]
            x, y = j * width, i * height
            lines.append(
                f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{color}" '
                'stroke="black"/>'
            )
            lines.append(
                f'<text x="{x + width // 2}" y="{y + height // 2}" text-anchor="middle" '
                f'dominant-baseline="middle" font-size="12">{html.escape(label)}</text>'
            )
    return "\n".join([*lines, "</svg>"])


def _cells(shape: Sequence[int], sharding: Any) -> list[list[str]]:
    """Return the names of the devices that hold each part, in rows."""
    if len(shape) not in (1, 2):
        raise ValueError(
            three_lines(
                f"a picture of {sharding} for an array of shape {tuple(shape)} at "
                f"{current_source()}",
                f"only works for shapes with 1 and 2 dimensions, not {len(shape)}",
                "take a slice of the array, or reshape it, to look at one or two dimensions",
            )
        )
    sharding.shard_shape(shape)
    parts, at = sharding.blocks(len(shape))
    count = parts if len(parts) == 2 else (1, *parts)
    holders: dict[tuple[int, ...], list[Any]] = {}
    for device, place in zip(sharding.devices, at, strict=True):
        holders.setdefault((0, *place)[-2:], []).append(device)
    return [[_label(holders.get((i, j), ())) for j in range(count[1])] for i in range(count[0])]


def _label(devices: Sequence[Any]) -> str:
    if not devices:
        return ""
    ids = ",".join(str(i) for i in sorted(d.id for d in devices))
    return f"{devices[0].platform.upper()} {ids}"
