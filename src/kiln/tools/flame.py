"""Flame graphs and rooflines as SVG: one file each, without scripts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kiln.base.lazy import html
from kiln.tools.figures import Operation
from kiln.tools.limits import Limits
from kiln.tools.samples import Sample

_WIDTH, _ROW, _MARGIN = 1200, 18, 10
_LEAST = 0.4
"""The least width of a box, in pixels: narrower ones are left out."""
_LETTER = 6.6
_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}">
<style>text {{ font: 11px ui-monospace, monospace; fill: #1c2733 }} \
rect:hover, circle:hover {{ stroke: #1c2733 }} \
.line {{ stroke: #8da2b5; fill: none }}</style>
<rect width="100%" height="100%" fill="#fff"/>
<text x="{margin}" y="18" style="font-weight: 600">{title}</text>
"""


class _Node:
    """A frame under its callers, and how many samples it is in."""

    def __init__(self) -> None:
        self.count = 0
        self.inner: dict[str, _Node] = {}


def flame(samples: Iterable[Sample], title: str) -> str:
    """Return a flame graph: frames above their callers, as wide as the time they were seen."""
    root = _Node()
    for sample in samples:
        node = root
        node.count += 1
        for frame in sample.stack:
            node = node.inner.setdefault(str(frame), _Node())
            node.count += 1
    shapes: list[str] = []
    depth = _depth(root)
    height = 30 + _ROW * depth + _MARGIN
    wide = _WIDTH - 2 * _MARGIN
    left = float(_MARGIN)
    waiting = []
    for name, node in sorted(root.inner.items()):
        waiting.append((name, node, left, 1))
        left += wide * node.count / root.count
    while waiting:
        name, node, x, level = waiting.pop()
        width = wide * node.count / root.count
        if width < _LEAST:
            continue
        y = height - _MARGIN - level * _ROW
        shapes.append(_box(name, node.count / root.count, x, y, width))
        for inner, below in sorted(node.inner.items()):
            waiting.append((inner, below, x, level + 1))
            x += wide * below.count / root.count
    shown = html.escape(f"{title}: {root.count} samples")
    head = _HEAD.format(width=_WIDTH, height=height, margin=_MARGIN, title=shown)
    return "\n".join([head, *shapes, "</svg>", ""])


def _depth(node: _Node) -> int:
    return 1 + max(map(_depth, node.inner.values()), default=0) if node.count else 1


def _box(name: str, part: float, x: float, y: float, width: float) -> str:
    hue = 205 if name.startswith("(") else 20 + sum(map(ord, name)) % 30
    fits = int((width - 6) / _LETTER)
    shown = name if len(name) <= fits else f"{name[: fits - 2]}.." if fits > 4 else ""
    return (
        f'<g><title>{html.escape(name)}: {part:.1%}</title><rect x="{x:.1f}" y="{y}" '
        f'width="{width:.1f}" height="{_ROW - 1}" rx="2" fill="hsl({hue} 80% 72%)"/>'
        f'<text x="{x + 3:.1f}" y="{y + 12}" pointer-events="none">{html.escape(shown)}</text></g>'
    )


_HIGH, _LEFT = 480, 70


def roofline(operations: Sequence[Operation], limits: Limits, title: str) -> str:
    """Return a roofline: operations by operations per byte and per second, below the limits.

    The area of a circle is its part of the time.
    """
    shown = [each for each in operations if each.flops and each.bytes and each.seconds]
    total = sum(each.seconds for each in shown) or 1.0
    peak, rates = limits.flops["f32"], limits.bytes
    xs = [each.flops / each.bytes for each in shown] + [peak / min(rates.values())]
    ys = [each.flops / each.seconds for each in shown] + [peak]
    low_x, high_x = math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs)) + 0.3)
    low_y, high_y = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)) + 0.1)

    def x_of(value: float) -> float:
        part = (math.log10(value) - low_x) / (high_x - low_x)
        return _LEFT + part * (_WIDTH - _LEFT - _MARGIN)

    def y_of(value: float) -> float:
        part = (math.log10(value) - low_y) / (high_y - low_y)
        return _HIGH - 40 - part * (_HIGH - 96)

    shapes = []
    for power in range(low_x, high_x + 1):
        x = min(x_of(10**power), _WIDTH - 34)
        shapes.append(f'<text x="{x:.0f}" y="{_HIGH - 22}">1e{power}</text>')
    for power in range(low_y, high_y + 1):
        y = y_of(10**power)
        shapes.append(f'<path class="line" opacity="0.4" d="M{_LEFT} {y:.1f}H{_WIDTH - _MARGIN}"/>')
        shapes.append(f'<text x="{_MARGIN}" y="{y + 4:.1f}">1e{power}</text>')
    shapes.append(f'<text x="{_LEFT}" y="{_HIGH - 6}">operations per byte</text>')
    shapes.append(f'<text x="{_MARGIN}" y="36">operations per second</text>')
    for name, flops in limits.flops.items():
        knee = max(flops / max(rates.values()), 10**low_x)
        points = f"M{x_of(knee):.1f} {y_of(flops):.1f}H{_WIDTH - _MARGIN}"
        shapes.append(f'<path class="line" d="{points}"/>')
        label = f"{name}: {flops / 1e9:.0f} G/s"
        shapes.append(f'<text x="{_WIDTH - 130}" y="{y_of(flops) - 4:.1f}">{label}</text>')
    for size, rate in rates.items():
        first = max(10.0**low_x, 10.0**low_y / rate)
        start, end = (first, rate * first), (peak / rate, peak)
        line = f"M{x_of(start[0]):.1f} {y_of(start[1]):.1f}L{x_of(end[0]):.1f} {y_of(end[1]):.1f}"
        note = f"{size >> 10} KiB: {rate / 1e9:.0f} GB/s"
        shapes.append(f'<path class="line" d="{line}"><title>{note}</title></path>')
    for each in shown:
        radius = 3 + 30 * math.sqrt(each.seconds / total)
        about = f"{each.program}: {each.name}, {each.part:.0%} of the limit ({each.bound})"
        shapes.append(
            f"<g><title>{html.escape(about)}</title>"
            f'<circle cx="{x_of(each.flops / each.bytes):.1f}" '
            f'cy="{y_of(each.flops / each.seconds):.1f}" r="{radius:.1f}" '
            'fill="hsl(205 70% 45% / 0.45)"/></g>'
        )
    head = _HEAD.format(width=_WIDTH, height=_HIGH, margin=_MARGIN, title=html.escape(title))
    return "\n".join([head, *shapes, "</svg>", ""])
