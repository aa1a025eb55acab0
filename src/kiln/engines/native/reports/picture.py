"""A program as a picture: its nests as boxes in execution order, in one HTML file.

Loops are frames around boxes; an edge leads from what writes a buffer to what reads it. Boxes are
darker the larger their share of the time, if the program is instrumented, otherwise of the bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kiln.base.lazy import html
from kiln.base.named_tuples import NamedTuple
from kiln.core.engines.memory_text import size_text
from kiln.engines.native.loop_ir.buffers import everything, reads, writes
from kiln.engines.native.loop_ir.costs import costs_of
from kiln.engines.native.loop_ir.extents import TYPICAL, estimate
from kiln.engines.native.loop_ir.statements import (
    Branch,
    Buffer,
    Function,
    Statement,
    While,
)
from kiln.engines.native.loop_ir.text import buffer_names, headings, to_text
from kiln.engines.native.reports.profiling import Profile, count_text, places_of, time_text
from kiln.ir.sizes.size import Size

_WIDTH, _INDENT, _MARGIN = 620, 18, 24
_LINE, _PADDING, _GAP = 16, 8, 14
_LANE = 11
"""The distance between edges that pass boxes."""

_STYLE = """
text { font: 12px ui-monospace, monospace; fill: #1c2733 } text.name { font-weight: 600 }
text.note { fill: #5a6b7b } rect.frame { fill: none; stroke: #8da2b5; stroke-dasharray: 5 3 }
rect.box { stroke: #41637f } rect.end { fill: #eef2f5; stroke: #8da2b5 }
path.edge { fill: none; stroke: #41637f; marker-end: url(#arrow) }
path.edge:hover { stroke: #c2410c }
"""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title></head>
<body style="font: 13px/1.4 system-ui, sans-serif; margin: 24px; color: #1c2733; background: #fff">
<h1>{title}</h1>
<p>{facts}. The darker a box, the larger its part {how}.</p>
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
     viewBox="0 0 {width} {height}">
<style>{style}</style>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
              orient="auto"><path d="M0 0 8 4 0 8z" fill="#41637f"/></marker></defs>
{shapes}
</svg>
<h2>Loops</h2>
<pre style="overflow-x: auto">{loops}</pre>
</body>
</html>
"""


class _Box(NamedTuple):
    """A box, or the frame of a loop, at a position in the picture."""

    x: int
    y: int
    width: int
    height: int

    @property
    def right(self) -> int:
        return self.x + self.width


_Writers = dict[Buffer, tuple[_Box, ...]]
"""The boxes that wrote a buffer last: for branches there are several."""


def picture(function: Function, profile: Profile | None = None) -> str:
    """Return a page with the picture of a program, and its loops as text."""
    return _Picture(function, profile).page()


class _Picture:
    def __init__(self, function: Function, profile: Profile | None) -> None:
        self.function = function
        self.names = buffer_names(function)
        self.headings = headings(function)
        self.shapes: list[str] = []
        self.edges: dict[tuple[_Box, _Box], dict[str, None]] = {}
        self.seconds: dict[Statement, tuple[float, int]] = {}
        if profile is not None:
            found = profile.measured()
            self.seconds = {each.statement: (each.seconds, each.runs) for each in found}
        self.measured = any(count for _, count in self.seconds.values())
        self.total = sum(map(self._weight, function.body)) or 1.0

    def _weight(self, statement: Statement) -> float:
        if self.measured:
            return self.seconds.get(statement, (0.0, 0))[0]
        return estimate(costs_of([statement])[1])

    def page(self) -> str:
        function = self.function
        first = self._end(function.inputs, "arguments", _MARGIN)
        writers: _Writers = dict.fromkeys(function.inputs, (first,))
        whole = first._replace(y=first.y + first.height + _GAP)
        y = self._column(function.body, whole, writers)
        last = self._end(function.outputs, "results", y)
        for buffer in function.outputs:
            self._edges(buffer, last, writers)
        lanes = self._lanes()
        height = last.y + last.height + _MARGIN
        width = 2 * _MARGIN + _WIDTH + _LANE * (lanes + 1)
        flops, accessed = costs_of(function.body)
        how = "of the time" if self.measured else "of the bytes"
        if isinstance(accessed, Size) and not self.measured:
            how += f", with named sizes taken to be {TYPICAL:,}"
        words = {
            "title": html.escape(function.name),
            "facts": f"{size_text(accessed)} read and written, {count_text(flops)} operations",
            "how": how,
            "width": width,
            "height": height,
            "shapes": "\n".join(self.shapes),
            "loops": html.escape(to_text(function)),
        }
        return _PAGE.format(style=_STYLE, **words)

    # Boxes.

    def _end(self, buffers: Sequence[Buffer], what: str, y: int) -> _Box:
        listed = [f"{self.names[b]} {size_text(b.nbytes)}" for b in dict.fromkeys(buffers)]
        text = ", ".join(listed[:6]) + (f", and {len(listed) - 6} more" if len(listed) > 6 else "")
        return self._box(_Box(_MARGIN, y, _WIDTH, 0), [what, text or "none"], "end", "")

    def _column(self, statements: Sequence[Statement], room: _Box, writers: _Writers) -> int:
        """Draw statements below each other in an area; return the position of the next one."""
        y = room.y
        for statement in statements:
            here = room._replace(y=y, height=0)
            if statement.blocks:
                y = self._frame(statement, here, writers)
                continue
            box = self._leaf(statement, here)
            for buffer in dict.fromkeys(reads(statement)):
                self._edges(buffer, box, writers)
            writers.update(dict.fromkeys(writes(statement), (box,)))
            y += box.height + _GAP
        return y

    def _frame(self, statement: Statement, room: _Box, writers: _Writers) -> int:
        """Draw a loop or a branch around its statements."""
        x, y = room.x, room.y
        texts = self._texts(statement)
        place = len(self.shapes)
        inside = y + _PADDING + len(texts) * _LINE + _PADDING
        before = dict(writers)
        for i, block in enumerate(statement.blocks):
            if i and isinstance(statement, (Branch, While)):
                word = "else" if isinstance(statement, Branch) else "do"
                self._text(x + _PADDING, inside, word, "note")
                inside += _LINE
            own = dict(before) if isinstance(statement, Branch) else writers
            within = _Box(x + _INDENT, inside, room.width - _INDENT - _PADDING, 0)
            inside = self._column(block, within, own)
            for buffer, boxes in own.items():
                if boxes != before.get(buffer) and own is not writers:
                    others = writers.get(buffer, ())
                    others = () if others == before.get(buffer) else others
                    writers[buffer] = (*others, *boxes)
        drawn = self._box(room._replace(height=inside - y), texts, "frame", "")
        # The frame is drawn below its contents.
        self.shapes[place:] = [self.shapes[-1], *self.shapes[place:-1]]
        if isinstance(statement, Branch):
            self._edges(statement.number.buffer, drawn, before)
        return inside + _GAP

    def _leaf(self, statement: Statement, room: _Box) -> _Box:
        part = min(self._weight(statement) / self.total, 1.0)
        fill = f"hsl(205 70% {96 - round(38 * part)}%)"
        return self._box(room, self._texts(statement), "box", f' style="fill:{fill}"')

    def _texts(self, statement: Statement) -> list[str]:
        """Return the text of a box: its description, its cost, its lines of code."""
        flops, accessed = costs_of([statement])
        facts = [size_text(accessed)] + ([f"{count_text(flops)} operations"] if flops != 0 else [])
        seconds, count = self.seconds.get(statement, (0.0, 0))
        if count:
            part = seconds / self.total
            facts.insert(0, f"{time_text(seconds)} in {count} runs, {part:.1%}")
        read, written = everything(statement)
        known = [name for buffer, name in self.names.items() if buffer in read - written]
        if known and not statement.blocks:
            facts.append(f"reads {', '.join(known)}")
        lines = [_short(place) for place in places_of(statement)]
        return [self.headings[statement], "; ".join(facts), *_wrapped(lines)]

    def _box(self, box: _Box, texts: Sequence[str], kind: str, style: str) -> _Box:
        if not box.height:
            box = box._replace(height=2 * _PADDING + _LINE * len(texts))
        size = f'width="{box.width}" height="{box.height}"'
        parts = [f'<g><rect class="{kind}" x="{box.x}" y="{box.y}" {size} rx="5"{style}/>']
        for i, text in enumerate(texts):
            css = "note" if i else "name"
            at = box.y + _PADDING + _LINE * (i + 1) - 4
            parts.append(_text(box.x + _PADDING, at, text, css, box.width - 2 * _PADDING))
        self.shapes.append("".join([*parts, "</g>"]))
        return box

    def _text(self, x: int, y: int, text: str, css: str) -> None:
        self.shapes.append(_text(x, y + _LINE - 4, text, css, _WIDTH))

    # Edges.

    def _edges(self, buffer: Buffer, end: _Box, writers: _Writers) -> None:
        """Add edges from the last writers of a buffer to a box."""
        for start in writers.get(buffer, ()):
            self.edges.setdefault((start, end), {})[self.names[buffer]] = None

    def _lanes(self) -> int:
        """Draw the edges to the right of the boxes, without overlap; return the number of lanes."""
        taken: list[int] = []
        for (start, end), names in sorted(self.edges.items(), key=lambda edge: edge[0][0].y):
            top = start.y + start.height - _PADDING
            bottom = end.y + _PADDING
            lane = next((i for i, free in enumerate(taken) if free < top), len(taken))
            taken[lane : lane + 1] = [bottom]
            x = _MARGIN + _WIDTH + _LANE * (lane + 1)
            there = f"M{start.right} {top} H{x - 4} Q{x} {top} {x} {top + 4}"
            back = f"V{bottom - 4} Q{x} {bottom} {x - 4} {bottom} H{end.right + 1}"
            title = f"<title>{html.escape(', '.join(names))}</title>"
            self.shapes.append(f'<path class="edge" d="{there} {back}">{title}</path>')
        return len(taken)


def _text(x: int, y: int, text: str, css: str, width: int) -> str:
    most = width // 7
    shown = text if len(text) <= most else text[: most - 1] + "…"
    title = f"<title>{html.escape(text)}</title>" if shown != text else ""
    return f'<text class="{css}" x="{x}" y="{y}">{title}{html.escape(shown)}</text>'


def _short(place: str) -> str:
    """Return a line of the user's code without the folder of its file."""
    path, _, function = place.partition(" in ")
    return f"{os.path.basename(path)} in {function}" if function else place


def _wrapped(places: Sequence[str]) -> list[str]:
    return [", ".join(places[i : i + 3]) for i in range(0, min(len(places), 9), 3)]
